"""What is started for a container: command, arguments and environment."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox import description
from sandbox.kubelet.wire import ContainerSpec, RunnablePod

_PLACEHOLDERS = frozenset({"python", "kubeconfig", "root", "name", "namespace", "ip"})
_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a container runs."""

    kubeconfig: Path
    root: Path  # its mounts appear below it
    ip: str
    host_ip: str


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


def environment(pod: RunnablePod, container: ContainerSpec, place: Place) -> dict[str, str]:
    """The variables that the pod asks for; each may refer to those before it.

    Raises:
        ValueError: a variable comes from somewhere that isn't supported.
    """
    found: dict[str, str] = {}
    for variable in container.env or ():
        if variable.value_from is None:
            found[variable.name] = expand(variable.value, found)
        elif variable.value_from.field_ref is not None:
            path = variable.value_from.field_ref.field_path
            found[variable.name] = field_of(pod, path, place)
        else:
            raise ValueError(f"variable {variable.name}: only values and fieldRef are supported")
    return found


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(VAR)``; ``$$`` is a dollar, and an unknown variable stays as it is.

    Source: ``Expand``, k8s.io/kubernetes third_party/forked/golang/expansion/expand.go.
    """

    def replacement(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return env.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def field_of(pod: RunnablePod, path: str, place: Place) -> str:
    """A field of the pod, as the downward API names it.

    Raises:
        ValueError: there is no such field.
    """
    meta = pod.metadata
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        entries = (meta.labels if keyed[1] == "labels" else meta.annotations) or {}
        return entries.get(keyed[2], "")
    fields = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _lines(meta.labels),
        "metadata.annotations": _lines(meta.annotations),
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.podIP": place.ip,
        "status.podIPs": place.ip,
        "status.hostIP": place.host_ip,
    }
    if path not in fields:
        raise ValueError(f"no such field of a pod: {path}")
    return fields[path]


def _lines(entries: Mapping[str, str] | None) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted((entries or {}).items()))
