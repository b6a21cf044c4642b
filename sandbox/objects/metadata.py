"""The metadata that the server owns: identity, generation, field managers."""

from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

from sandbox.objects.resources import DEPLOYMENTS, Resource
from sandbox.times import rfc3339

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 58
_MAPS_AND_LISTS = ("labels", "annotations", "ownerReferences", "finalizers")
_OF_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_SERVER_OWNED = ("uid", "creationTimestamp", *_OF_DELETION, "generation", "managedFields")
_FIRST = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
)


def copy_fields(target: dict[str, Any], source: Mapping[str, Any], *names: str) -> None:
    """Copy fields of ``source`` into ``target``, or remove them if ``source`` lacks them."""
    for name in names:
        if name in source:
            target[name] = source[name]
        else:
            target.pop(name, None)


def generated_name(prefix: str, rng: Random) -> str:
    """Return ``prefix`` with five random letters. A long prefix is shortened."""
    suffix = "".join(rng.choices(_SUFFIX_LETTERS, k=5))
    return prefix[:_LONGEST_PREFIX] + suffix


def tidy(obj: dict[str, Any]) -> None:
    """Remove, in place, top-level nulls and empty maps of the metadata, as a server does.

    A missing map matters: a JSON patch can't add below ``/metadata/annotations`` without one.
    """
    for name in [name for name, value in obj.items() if value is None]:
        if name != "eventTime":
            del obj[name]
    tidy_metadata(obj)


def tidy_metadata(obj: dict[str, Any]) -> None:
    """Remove nulls and empty maps from the metadata alone. A schema decides on other nulls."""
    meta = obj.setdefault("metadata", {})
    for name in [name for name, value in meta.items() if value is None]:
        del meta[name]
    for name in _MAPS_AND_LISTS:
        if name in meta and not meta[name]:
            del meta[name]


def stamp_new(obj: dict[str, Any], resource: Resource, now: datetime, rng: Random) -> None:
    """Set the identity of a new object, in place, and move ``metadata`` to the front."""
    meta = obj.pop("metadata")
    for name in _OF_DELETION:
        meta.pop(name, None)
    meta["uid"] = str(UUID(int=rng.getrandbits(128), version=4))
    meta["resourceVersion"] = ""
    meta["creationTimestamp"] = rfc3339(now)
    if resource.counts_generations:
        meta["generation"] = 1
    ordered = {name: meta[name] for name in _FIRST if name in meta}
    ordered.update(meta)
    rest = dict(obj)
    obj.clear()
    obj["metadata"] = ordered
    for name in ("spec", "status"):
        if name in rest:
            obj[name] = rest.pop(name)
    obj.update(rest)


def carry_over(old: Mapping[str, Any], new: dict[str, Any]) -> None:
    """Copy the metadata that only the server may change from ``old`` to ``new``, in place."""
    before, after = old["metadata"], new["metadata"]
    copy_fields(after, before, *_SERVER_OWNED)
    after["resourceVersion"] = before["resourceVersion"]


def manager_of(user_agent: str) -> str:
    """Return the default field manager: the user agent up to the slash, at most 128 characters."""
    return user_agent.partition("/")[0][:128] or "unknown"


def record_manager(
    obj: dict[str, Any], *, manager: str, api_version: str, subresource: str, now: datetime
) -> None:
    """Record the field manager of a write, in place, without field sets."""
    entries = obj["metadata"].setdefault("managedFields", [])
    for entry in entries:
        if entry["manager"] == manager and entry.get("subresource", "") == subresource:
            entry["apiVersion"] = api_version
            entry["time"] = rfc3339(now)
            return
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "time": rfc3339(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": {},
    }
    if subresource:
        entry["subresource"] = subresource
    entries.append(entry)


def grows_generation(
    resource: Resource, subresource: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> bool:
    """Return True if an update changes more than metadata, and more than status beside spec.

    A Deployment's annotations count as well, because its ReplicaSets get them.
    """
    if not resource.counts_generations:
        return False
    if resource is DEPLOYMENTS and not subresource:
        before, after = old["metadata"].get("annotations"), new["metadata"].get("annotations")
        if before != after:
            return True
    ignored = {"metadata", "kind", "apiVersion"}
    if resource.has_status:
        ignored.add("status")
    return any(
        old.get(name) != new.get(name)
        for name in old.keys() | new.keys() - ignored
        if name not in ignored
    )
