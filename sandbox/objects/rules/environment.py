"""The rules that the environment of a container keeps.

Source: ``ValidateEnv`` and ``ValidateEnvFrom``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_invalid, field_not_supported, field_required, fields_invalid
from sandbox.objects.rules.data import data_key_causes
from sandbox.objects.rules.dns_names import subdomain_problems
from sandbox.objects.rules.metadata import key_causes
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

_FILES: Final = 35  # the minor since which variables may come from files
_ENVIRONMENT: Final = re.compile(r"[ -<>-~]*")
_ENVIRONMENT_RULE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other "
    "than '='"
)
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_FIELD_PATHS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"),
    *("spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"),
    "status.podIPs",
)
_FIELDS_OF_VOLUMES: Final = (
    *("metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName"),
    "status.phase",
)
_WITH_SUBSCRIPTS: Final = ("metadata.annotations", "metadata.labels")
_SUBSCRIPTED: Final = re.compile(r"([^\[\]]+)\['(.*)'\]")
_AMOUNTS: Final = tuple(
    f"{part}.{name}"
    for part in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")


def environment_causes(variables: Any, path: str, version: KubernetesVersion) -> Iterator[Cause]:
    """Every variable that has no name, or no single source."""
    for index, variable in enumerate(variables):
        place, name = f"{path}[{index}]", variable.get("name") or ""
        if not name:
            yield field_required(f"{place}.name")
        elif _ENVIRONMENT.fullmatch(name) is None:
            yield field_invalid(f"{place}.name", name, _ENVIRONMENT_RULE)
        source = variable.get("valueFrom")
        if source is not None:
            yield from _source_causes(variable, source, f"{place}.valueFrom", version)


def _source_causes(
    variable: Json, source: Json, path: str, version: KubernetesVersion
) -> Iterator[Cause]:
    names = _SOURCES if version.minor < _FILES else (*_SOURCES, "fileKeyRef")
    given = [name for name in names if source.get(name) is not None]
    reference = source.get("fieldRef")
    if reference is not None:
        yield from _field_causes(reference, f"{path}.fieldRef")
    amount = source.get("resourceFieldRef")
    if amount is not None:
        yield from _amount_field_causes(amount, f"{path}.resourceFieldRef")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if source.get(name) is not None:
            yield from _key_causes(source[name], f"{path}.{name}")
    if not given:
        listed = ", ".join(f"`{name}`" for name in names[:-1])
        yield field_invalid(path, "", f"must specify one of: {listed} or `{names[-1]}`")
    elif variable.get("value"):
        yield field_invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield field_invalid(path, "", "may not have more than one field specified at a time")


def _field_causes(reference: Json, path: str) -> Iterator[Cause]:
    where = reference.get("fieldPath") or ""
    if not where:
        yield field_required(f"{path}.fieldPath")
    elif subscripted := _SUBSCRIPTED.fullmatch(where):
        owner, key = subscripted.groups()
        if owner in _WITH_SUBSCRIPTS:
            yield from key_causes(key.lower() if owner.endswith("annotations") else key, path)
        else:
            text = "error converting fieldPath: field label does not support subscript"
            yield field_invalid(f"{path}.fieldPath", where, f"{text}: {where}")
    elif where in _FIELDS_OF_VOLUMES:
        yield field_not_supported(f"{path}.fieldPath", where, _FIELD_PATHS)
    elif where not in (*_FIELD_PATHS, "spec.host"):
        text = f"error converting fieldPath: field label not supported: {where}"
        yield field_invalid(f"{path}.fieldPath", where, text)


def _amount_field_causes(reference: Json, path: str) -> Iterator[Cause]:
    wanted = reference.get("resource") or ""
    if not wanted:
        yield field_required(f"{path}.resource")
    elif wanted not in _AMOUNTS and not wanted.startswith(_HUGE_PAGES):
        yield field_not_supported(f"{path}.resource", wanted, _AMOUNTS)


def _key_causes(reference: Json, path: str) -> Iterator[Cause]:
    """A key of a ConfigMap or of a Secret."""
    name, key = reference.get("name") or "", reference.get("key") or ""
    yield from fields_invalid(f"{path}.name", name, subdomain_problems(name))
    if not key:
        yield field_required(f"{path}.key")
    else:
        yield from data_key_causes(key, f"{path}.key")


def environment_from_causes(sources: Any, path: str) -> Iterator[Cause]:
    """Every source of several variables that is none."""
    for index, source in enumerate(sources):
        place, prefix = f"{path}[{index}]", source.get("prefix") or ""
        if _ENVIRONMENT.fullmatch(prefix) is None:
            yield field_invalid(f"{place}.prefix", prefix, _ENVIRONMENT_RULE)
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                yield field_required(f"{place}.{name}.name")
        if not given:
            yield field_invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield field_invalid(path, "", "may not have more than one field specified at a time")
