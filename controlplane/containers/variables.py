"""The environment of a container: values, fields of the pod, Secrets and ConfigMaps.

Without I/O: ``sources`` reads the objects that variables refer to (:func:`references`) first.
Source: ``makeEnvironmentVariables``, k8s.io/kubernetes pkg/kubelet/kubelet_pods.go.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from common.variable_references import expand
from controlplane.containers.site import Place
from controlplane.containers.sources import Data, Reference, SourceKind
from sandbox.kubelet.wire import ContainerSpec, EnvSource, ObjectRef, RunnablePod

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")

Ref = TypeVar("Ref", bound=ObjectRef)
Objects = Mapping[Reference, Data | None]
"""The data of referenced objects; None for a missing object."""


class VariableError(Exception):
    """A variable has no value; the sentence is a kubelet's."""


def references(container: ContainerSpec) -> Iterator[Reference]:
    """Yield the objects of the container's variables. Some may be repeated."""
    for origin in container.env_from or ():
        for kind, ref in _kinds(origin.config_map_ref, origin.secret_ref):
            yield Reference(kind, ref.name)
    for variable in container.env or ():
        source = variable.value_from or EnvSource()
        for kind, ref in _kinds(source.config_map_key_ref, source.secret_key_ref):
            yield Reference(kind, ref.name)


def environment(
    pod: RunnablePod, container: ContainerSpec, place: Place, objects: Objects
) -> dict[str, str]:
    """Return the container's variables; each may refer to those before it.

    Whole objects (``envFrom``) come first, and single variables override them. An optional object
    or key that is missing leaves no variable.

    Raises:
        VariableError: an object or a key is missing, or a source isn't supported.
    """
    found: dict[str, str] = {}
    for origin in container.env_from or ():
        for kind, ref in _kinds(origin.config_map_ref, origin.secret_ref):
            data = _values(objects, kind, ref)
            found.update((origin.prefix + key, _text(value)) for key, value in data.items())
    for variable in container.env or ():
        if variable.value or variable.value_from is None:
            found[variable.name] = expand(variable.value, found)
            continue
        value = _sourced(pod, variable.name, variable.value_from, place, objects)
        if value is not None:
            found[variable.name] = value
    return found


def _sourced(
    pod: RunnablePod, name: str, source: EnvSource, place: Place, objects: Objects
) -> str | None:
    if source.field_ref is not None:
        try:
            return field_of(pod, source.field_ref.field_path, place)
        except ValueError as error:
            raise VariableError(str(error)) from error
    for kind, ref in _kinds(source.config_map_key_ref, source.secret_key_ref):
        data = _values(objects, kind, ref)
        if ref.key in data:
            return _text(data[ref.key])
        if ref.optional:
            return None
        where = f"{pod.metadata.namespace}/{ref.name}"
        raise VariableError(f"couldn't find key {ref.key} in {kind} {where}")
    raise VariableError(
        f"variable {name}: only values, fieldRef, configMapKeyRef and secretKeyRef are supported"
    )


def _values(objects: Objects, kind: SourceKind, ref: ObjectRef) -> Mapping[str, bytes]:
    data = objects.get(Reference(kind, ref.name))
    if data is not None:
        return data.values
    if ref.optional:
        return {}
    raise VariableError(f'{kind.lower()} "{ref.name}" not found')


def _kinds(config_map: Ref | None, secret: Ref | None) -> Iterator[tuple[SourceKind, Ref]]:
    if config_map is not None:
        yield SourceKind.CONFIG_MAP, config_map
    if secret is not None:
        yield SourceKind.SECRET, secret


def _text(value: bytes) -> str:
    """Return bytes as an environment holds them, even if they aren't text."""
    return value.decode("utf-8", "surrogateescape")


def field_of(pod: RunnablePod, path: str, place: Place) -> str:
    """Return a field of the pod, as the downward API names it.

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
