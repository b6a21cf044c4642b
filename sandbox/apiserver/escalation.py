"""Nobody gives away rights that he doesn't have himself.

Who writes a role must hold its rules, or be allowed to ``escalate`` the role; who writes a
binding must hold the rules of its role, or be allowed to ``bind`` it.

Source: k8s.io/kubernetes pkg/registry/rbac/{escalation_check.go,*/policybased/storage.go},
k8s.io/component-helpers auth/rbac/validation/policy_comparator.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandbox.admission.request import AdmissionRequest, UserInfo
from sandbox.apiserver.authorization import ALL, MASTERS, Attributes, Authorizer, url_fits
from sandbox.errors import forbidden, not_found, shown
from sandbox.objects.access_resources import (
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
)
from sandbox.objects.resources import Resource

RawRule = Mapping[str, Any]

_FIELDS = {  # as the sentence names them
    "APIGroups": "apiGroups",
    "Resources": "resources",
    "NonResourceURLs": "nonResourceURLs",
    "ResourceNames": "resourceNames",
    "Verbs": "verbs",
}
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")  # what a garbage collector changes


class Escalation:
    """The check of one API server."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, request: AdmissionRequest) -> None:
        """Let a role or a binding pass whose rules its writer has.

        Raises:
            ApiError: 403, rights are missing; 404, a binding's role is.
        """
        resource, obj = request.resource, request.object
        if resource.group != RBAC or obj is None or MASTERS in request.user.groups:
            return
        if request.old_object is not None and _same(request.old_object, obj):
            return
        if resource in (ROLES, CLUSTER_ROLES):
            if self._may("escalate", request, resource, request.name):
                return
            rules: Sequence[RawRule] = obj.get("rules") or ()
        else:
            reference = obj.get("roleRef") or {}
            kind, name = reference.get("kind") or "", reference.get("name") or ""
            role = ROLES if kind == ROLES.kind and resource is ROLE_BINDINGS else CLUSTER_ROLES
            if self._may("bind", request, role, name):
                return
            found = self._authorizer.role_rules(role, request.namespace, name)
            if found is None:
                raise not_found(resource, name)  # as a real server tells it
            rules = [one.raw for one in found]
        held = [one.raw for one in self._authorizer.rules(request.user, request.namespace)]
        missing = [
            one
            for rule in rules
            for one in _broken_down(rule)
            if not any(_covers(owned, one) for owned in held)
        ]
        if missing:
            name = obj["metadata"].get("name") or ""
            raise forbidden(resource, name, _sentence(request.user, missing))

    def _may(self, verb: str, request: AdmissionRequest, role: Resource, name: str) -> bool:
        asked = Attributes(
            verb=verb, group=RBAC, resource=role.plural, namespace=request.namespace, name=name
        )
        return self._authorizer.decide(request.user, asked).allowed


def _same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a change concerns only what a garbage collector changes."""
    return _without_collected(old) == _without_collected(new)


def _without_collected(obj: Mapping[str, Any]) -> dict[str, Any]:
    meta = {name: value for name, value in obj["metadata"].items() if name not in _COLLECTED}
    return {**obj, "metadata": meta}


def _broken_down(rule: RawRule) -> Iterator[RawRule]:
    """Rules of one verb and one resource, URL or name each, which together are ``rule``."""
    verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ()
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                one = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                yield from ({**one, "resourceNames": [name]} for name in names)
                if not names:
                    yield one
    for url in rule.get("nonResourceURLs") or ():
        yield from ({"nonResourceURLs": [url], "verbs": [verb]} for verb in verbs)


def _covers(owned: RawRule, wanted: RawRule) -> bool:
    """Whether one rule allows what another one of a single verb and resource does."""

    def has(field: str, *, star: bool = True) -> bool:
        mine, theirs = owned.get(field) or (), wanted.get(field) or ()
        return (star and ALL in mine) or set(theirs) <= set(mine)

    names = owned.get("resourceNames") or ()
    named = not names or (bool(wanted.get("resourceNames")) and has("resourceNames", star=False))
    mine = owned.get("resources") or ()
    resources = has("resources") or all(
        one in mine or ("/" in one and f"*/{one.partition('/')[2]}" in mine)
        for one in wanted.get("resources") or ()
    )
    urls = all(
        any(url_fits(pattern, url) for pattern in owned.get("nonResourceURLs") or ())
        for url in wanted.get("nonResourceURLs") or ()
    )
    return has("verbs") and has("apiGroups") and resources and named and urls


def _sentence(user: UserInfo, missing: Iterable[RawRule]) -> str:
    lines = sorted({_described(one) for one in _compact(missing)})
    groups = _quoted(user.groups)
    return (
        f"user {shown(user.username)} (groups={groups}) is attempting to grant RBAC permissions "
        "not currently held:\n" + "\n".join(lines)
    )


def _compact(rules: Iterable[RawRule]) -> Iterator[RawRule]:
    """Rules that differ in their verb only, as one."""
    verbs: dict[tuple[str, str, str | None], list[str]] = {}
    for rule in rules:
        if not rule.get("resources"):
            yield rule
            continue
        name = (rule.get("resourceNames") or [None])[0]
        key = (rule["apiGroups"][0], rule["resources"][0], name)
        verbs.setdefault(key, []).extend(rule["verbs"])
    for (group, resource, name), together in verbs.items():
        one = {"apiGroups": [group], "resources": [resource], "verbs": together}
        yield one if name is None else {**one, "resourceNames": [name]}


def _described(rule: RawRule) -> str:
    parts = (f"{name}:{_quoted(rule[field])}" for name, field in _FIELDS.items() if rule.get(field))
    return "{" + ", ".join(parts) + "}"


def _quoted(words: Iterable[str]) -> str:
    return f"[{' '.join(map(shown, words))}]"
