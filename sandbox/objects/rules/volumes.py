"""The rules that the volumes of a pod keep.

What is inside of the volumes of single vendors isn't looked at, nor what is inside of projections.

Source: ``ValidateVolumes`` and what it calls, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_not_supported,
    field_required,
    fields_invalid,
)
from sandbox.objects.rules.dns_names import label_problems

Json = Mapping[str, Any]

_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate"),
    *("File", "FileOrCreate", "Socket"),
)
_MODES: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_LARGEST_MODE: Final = 0o777


def volume_causes(volumes: Any, path: str, sound: dict[str, Json]) -> Iterator[Cause]:
    """Every broken rule; volumes without one are put into ``sound``, by their names."""
    for index, volume in enumerate(volumes or ()):
        place, name = f"{path}[{index}]", volume.get("name") or ""
        causes = list(_source_causes(volume, place))
        if name:
            causes += fields_invalid(f"{place}.name", name, label_problems(name))
        else:
            causes.append(field_required(f"{place}.name"))
        if name in sound:
            causes.append(field_duplicate(f"{place}.name", name))
        if not causes:
            sound[name] = volume
        yield from causes


def backstep_causes(value: str, path: str) -> Iterator[Cause]:
    """A path that leads upwards."""
    if ".." in value.split("/"):
        yield field_invalid(path, value, "must not contain '..'")


def relative_path_causes(value: str, path: str) -> Iterator[Cause]:
    """A path that isn't below the place that it is relative to."""
    if value.startswith("/"):
        yield field_invalid(path, value, "must be a relative path")
    yield from backstep_causes(value, path)


def _source_causes(volume: Json, path: str) -> Iterator[Cause]:
    found = ""
    for name, rule in _SOURCES.items():
        source = volume.get(name)
        if source is None:
            continue
        if found:
            yield field_forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
            continue
        found = name
        if rule is not None:
            yield from rule(source, f"{path}.{name}")
    if not found:
        yield field_required(path, "must specify a volume type")


def _host_path(source: Json, path: str) -> Iterator[Cause]:
    where = source.get("path") or ""
    if not where:
        yield field_required(f"{path}.path")
        return
    yield from backstep_causes(where, f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        yield field_not_supported(f"{path}.type", kind, _HOST_PATH_TYPES)


def _secret(source: Json, path: str) -> Iterator[Cause]:
    yield from _named(source, path, "secretName")


def _config_map(source: Json, path: str) -> Iterator[Cause]:
    yield from _named(source, path, "name")


def _named(source: Json, path: str, key: str) -> Iterator[Cause]:
    if not source.get(key):
        yield field_required(f"{path}.{key}")
    yield from _mode_causes(source.get("defaultMode"), f"{path}.defaultMode")
    for index, item in enumerate(source.get("items") or ()):
        place = f"{path}.items[{index}]"
        for name in ("key", "path"):
            if not item.get(name):
                yield field_required(f"{place}.{name}")
        target = item.get("path") or ""
        yield from relative_path_causes(target, f"{place}.path")
        if target.startswith("..") and not target.startswith("../") and target != "..":
            yield field_invalid(f"{place}.path", target, "must not start with '..'")
        yield from _mode_causes(item.get("mode"), f"{place}.mode")


def _claim(source: Json, path: str) -> Iterator[Cause]:
    if not source.get("claimName"):
        yield field_required(f"{path}.claimName")


def _nfs(source: Json, path: str) -> Iterator[Cause]:
    for name in ("server", "path"):
        if not source.get(name):
            yield field_required(f"{path}.{name}")
    if not str(source.get("path") or "").startswith("/"):
        yield field_invalid(f"{path}.path", source.get("path", ""), "must be an absolute path")


def _with_mode(source: Json, path: str) -> Iterator[Cause]:
    yield from _mode_causes(source.get("defaultMode"), f"{path}.defaultMode")


def _mode_causes(mode: Any, path: str) -> Iterator[Cause]:
    if isinstance(mode, int) and not 0 <= mode <= _LARGEST_MODE:
        yield field_invalid(path, mode, _MODES)


# In the order in which a real server looks at them; the first that there is is the volume's.
_SOURCES: Final[Mapping[str, Callable[[Json, str], Iterator[Cause]] | None]] = {
    "emptyDir": None,
    "hostPath": _host_path,
    "gitRepo": None,
    "gcePersistentDisk": None,
    "awsElasticBlockStore": None,
    "secret": _secret,
    "nfs": _nfs,
    "iscsi": None,
    "glusterfs": None,
    "flocker": None,
    "persistentVolumeClaim": _claim,
    "rbd": None,
    "cinder": None,
    "cephfs": None,
    "quobyte": None,
    "downwardAPI": _with_mode,
    "fc": None,
    "flexVolume": None,
    "configMap": _config_map,
    "azureFile": None,
    "vsphereVolume": None,
    "photonPersistentDisk": None,
    "portworxVolume": None,
    "azureDisk": None,
    "storageos": None,
    "projected": _with_mode,
    "scaleIO": None,
    "csi": None,
    "ephemeral": None,
    "image": None,
}
