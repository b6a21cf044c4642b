"""What is started for a container: the command of its image, and its own arguments."""

import sys
from collections.abc import Mapping, Sequence

from sandbox import description
from sandbox.kubelet.local.site import Place
from sandbox.kubelet.local.variables import expand
from sandbox.kubelet.wire import ContainerSpec, RunnablePod

_PLACEHOLDERS = frozenset({"python", "kubeconfig", "root", "name", "namespace", "ip"})


def parse_images(value: object) -> dict[str, tuple[str, ...]]:
    """Read the mapping of images to commands.

    Raises:
        ValueError: no mapping, a command without words, or a placeholder that nobody fills.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"not a mapping: {value!r}")  # noqa: TRY004 - a value, not a bug
    found: dict[str, tuple[str, ...]] = {}
    for image, raw in value.items():
        words = description.texts(raw)
        if not words:
            raise ValueError(f"{image}: no command")
        blank = dict.fromkeys(_PLACEHOLDERS, "")
        for word in words:
            try:
                word.format_map(blank)
            except (KeyError, IndexError, ValueError, AttributeError) as error:
                known = ", ".join(sorted(_PLACEHOLDERS))
                raise ValueError(f"{image}: not a placeholder (known: {known}): {word}") from error
        found[description.text(image)] = words
    return found


def argv(
    words: Sequence[str],
    pod: RunnablePod,
    container: ContainerSpec,
    place: Place,
    env: Mapping[str, str],
) -> list[str]:
    """The command of the image, and the pod's arguments after it.

    The container's own ``command`` is left out: it names a program inside the image.
    """
    filled = {
        "python": sys.executable,
        "kubeconfig": str(place.kubeconfig),
        "root": str(place.root),
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "ip": place.ip,
    }
    return [
        *(word.format_map(filled) for word in words),
        *(expand(word, env) for word in container.args or ()),
    ]
