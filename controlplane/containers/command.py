"""The command of a container: that of its image, with the container's arguments."""

import sys
from collections.abc import Mapping, Sequence

from common.variable_references import expand
from controlplane.containers.site import Place
from sandbox.kubelet.wire import ContainerSpec, RunnablePod


def argv(
    words: Sequence[str],
    pod: RunnablePod,
    container: ContainerSpec,
    place: Place,
    env: Mapping[str, str],
) -> list[str]:
    """Return the command of the image, and the container's arguments after it.

    Words of the command may hold ``{python}`` (this interpreter), ``{kubeconfig}``, ``{root}`` (the
    container's folder), ``{name}``, ``{namespace}`` and ``{ip}``; ``{{`` and ``}}`` are braces.

    The container's own ``command`` is ignored: it names a program inside the image.
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
