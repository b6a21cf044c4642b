"""Who may do what: RBAC, evaluated as a real API server does.

Rules only ever allow. What a user may do is looked up once for each combination of verb,
resource and namespace, and forgotten when a role or a binding changes.

Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go and
pkg/registry/rbac/validation/rule.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sandbox.admission.request import UserInfo
from sandbox.apiserver.requests import Place, Request
from sandbox.errors import ApiError
from sandbox.objects.access_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
)
from sandbox.objects.label_selectors import selector_of
from sandbox.objects.resources import Resource
from sandbox.objects.store import Change, Store, Stored

MASTERS = "system:masters"
ALL = "*"

_REMEMBERED = 20_000  # decisions
_NAME_FIELD = "metadata.name="


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What is asked for: a verb on a resource, or, when ``path`` is set, on another path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of(cls, request: Request, place: Place | None) -> Self:
        """The attributes of a request.

        A namespace is within itself. A list that selects one name asks for that name, so a
        rule with resourceNames can allow it.

        Source: ``RequestInfoFactory.NewRequestInfo``, k8s.io/apiserver
        pkg/endpoints/request/requestinfo.go.
        """
        if place is None or not place.plural:
            return cls(verb=request.method.lower(), path=request.path)
        name, namespace = place.name, place.namespace
        watching = request.method == "GET" and request.flag("watch")
        if place.plural == "namespaces" and not place.group and name:
            namespace = name
        selector = request.query.get("fieldSelector", "")
        if not name and selector.startswith(_NAME_FIELD) and "," not in selector:
            name = selector.removeprefix(_NAME_FIELD).removeprefix("=")
        return cls(
            verb=place.verb(request.method, watch=watching),
            group=place.group,
            resource=place.plural,
            subresource=place.subresource.partition("/")[0],
            namespace=namespace,
            name=name,
        )

    @property
    def combined(self) -> str:
        """The resource with its subresource, as rules write it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A ``PolicyRule``; ``names`` empty means every name."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: frozenset[str]
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Self:
        fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        verbs, groups, resources, names, urls = (frozenset(raw.get(one) or ()) for one in fields)
        return cls(verbs=verbs, groups=groups, resources=resources, names=names, urls=urls, raw=raw)

    def fits(self, asked: Attributes) -> bool:
        """Whether the rule is about this, whatever the name.

        Source: ``RuleAllows``.
        """
        if not {ALL, asked.verb} & self.verbs:
            return False
        if asked.path:
            return any(url_fits(url, asked.path) for url in self.urls)
        if not {ALL, asked.group} & self.groups:
            return False
        wanted = {ALL, asked.combined}
        if asked.subresource:
            wanted.add(f"*/{asked.subresource}")
        return bool(wanted & self.resources)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What the rules say about a combination, whatever the name, and for which names."""

    always: str  # which binding allows it; empty when none does
    names: Mapping[str, str]  # the same for single names
    problems: str  # bindings of the user that lead nowhere


@dataclass(frozen=True, slots=True)
class _Grant:
    """A binding, seen from its subject; ``namespace`` is empty for the whole cluster."""

    namespace: str
    role: tuple[str, str]  # kind, name
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something is allowed, and in the words of a real server why or why not."""

    allowed: bool
    reason: str = ""


_OF_MASTERS = Verdict(True)


class Authorizer:
    """Decides by the roles and bindings in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decisions: dict[tuple[object, ...], _Decision] = {}
        self._grants: Mapping[str, Sequence[_Grant]] | None = None
        self._roles: dict[tuple[str, str, str], tuple[Rule, ...] | None] = {}
        for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS):
            store.subscribe(resource, self._forget)

    def check(self, user: UserInfo, asked: Attributes) -> None:
        """Let an allowed request pass.

        Raises:
            ApiError: 403, no rule allows it.
        """
        verdict = self.decide(user, asked)
        if not verdict.allowed:
            raise denied(user, asked, verdict.reason)

    def decide(self, user: UserInfo, asked: Attributes) -> Verdict:
        """Decide about a request, or about one that somebody thinks of."""
        if MASTERS in user.groups:
            return _OF_MASTERS
        decision = self._decision(user, asked)
        reason = decision.always or decision.names.get(asked.name, "")
        return Verdict(True, reason) if reason else Verdict(False, decision.problems)

    def rules(self, user: UserInfo, namespace: str) -> Iterator[Rule]:
        """Every rule that holds for a user in a namespace, and in the whole cluster."""
        for _, found in self._reached(user, namespace):
            yield from found or ()

    def role_rules(self, role: Resource, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of a Role or a ClusterRole, None when there is no such role."""
        return self._rules(_Grant(namespace, (role.kind, name), ""))

    def _decision(self, user: UserInfo, asked: Attributes) -> _Decision:
        key = (
            user.username,
            user.groups,
            asked.verb,
            asked.group,
            asked.resource,
            asked.subresource,
            asked.namespace,
            asked.path,
        )
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= _REMEMBERED:
                self._decisions.clear()
            known = self._decisions[key] = self._decide(user, asked)
        return known

    def _decide(self, user: UserInfo, asked: Attributes) -> _Decision:
        names: dict[str, str] = {}
        problems: dict[str, None] = {}
        for grant, rules in self._reached(user, asked.namespace):
            if rules is None:
                kind, name = grant.role
                problems[f'{kind.lower()}.{RBAC} "{name}" not found'] = None
            for rule in rules or ():
                if not rule.fits(asked):
                    continue
                if not rule.names or asked.path:
                    return _Decision(grant.reason, {}, "")
                names = {**dict.fromkeys(rule.names, grant.reason), **names}
        names.pop("", None)
        return _Decision("", names, _aggregated(problems))

    def _reached(
        self, user: UserInfo, namespace: str
    ) -> Iterator[tuple[_Grant, tuple[Rule, ...] | None]]:
        """The user's bindings, those of the cluster first, with the rules of their roles."""
        if self._grants is None:
            self._grants = self._index()
        subjects = (f"User {user.username}", *(f"Group {group}" for group in user.groups))
        found = [one for subject in subjects for one in self._grants.get(subject, ())]
        for grant in sorted(found, key=lambda one: one.namespace):
            if grant.namespace in ("", namespace):
                yield grant, self._rules(grant)

    def _index(self) -> dict[str, list[_Grant]]:
        index: dict[str, list[_Grant]] = {}
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for stored in self._store.list(resource):
                binding = stored.object(resource)
                reference = binding.get("roleRef") or {}
                role = (reference.get("kind", ""), reference.get("name", ""))
                place = f"/{stored.namespace}" if stored.namespace else ""
                for subject in binding.get("subjects") or ():
                    reason = (
                        f'RBAC: allowed by {resource.kind} "{stored.name}{place}" of {role[0]} '
                        f'"{role[1]}" to {_described(subject)}'
                    )
                    grant = _Grant(stored.namespace, role, reason)
                    index.setdefault(_subject(subject, stored), []).append(grant)
        return index

    def _rules(self, grant: _Grant) -> tuple[Rule, ...] | None:
        """The rules of a role, None when there is no such role."""
        kind, name = grant.role
        namespace = grant.namespace if kind == ROLES.kind else ""
        key = (kind, namespace, name)
        if key not in self._roles:
            self._roles[key] = self._read(kind, namespace, name)
        return self._roles[key]

    def _read(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        resource = ROLES if kind == ROLES.kind else CLUSTER_ROLES
        stored = self._store.get(resource, namespace, name)
        if stored is None:
            return None
        if kind == ROLES.kind:
            return tuple(Rule.read(one) for one in stored.object(ROLES).get("rules") or ())
        return tuple(Rule.read(one) for one in aggregated_rules(self._store, stored))

    def _forget(self, _: Change) -> None:
        self._decisions.clear()
        self._roles.clear()
        self._grants = None


def aggregated_rules(
    store: Store, stored: Stored, seen: frozenset[str] = frozenset()
) -> Sequence[Mapping[str, Any]]:
    """The rules of a ClusterRole; with an aggregationRule, those of the roles it selects.

    A real cluster has a controller that writes them into the role; here they hold at once.
    """
    role = stored.object(CLUSTER_ROLES)
    rules: list[Mapping[str, Any]] = list(role.get("rules") or ())
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return rules
    seen |= {stored.name}
    gathered: list[Mapping[str, Any]] = []
    chosen = [selector_of(one) for one in selectors]
    for other in store.list(CLUSTER_ROLES):
        if other.name not in seen and any(one.matches(other.labels) for one in chosen):
            more = aggregated_rules(store, other, seen)
            gathered += [rule for rule in more if rule not in gathered]
    return gathered


def denied(user: UserInfo, asked: Attributes, reason: str = "") -> ApiError:
    """The 403 of a request that no rule allows.

    Source: ``Forbidden``, k8s.io/apiserver pkg/endpoints/handlers/responsewriters/errors.go.
    """
    suffix = f": {reason}" if reason else ""
    start = f'User "{user.username}" cannot {asked.verb}'
    if asked.path:
        text = f'forbidden: {start} path "{asked.path}"{suffix}'
        return ApiError(403, "Forbidden", text, details={})
    kind = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f'{kind} "{asked.name}"' if asked.name else kind
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return ApiError(
        403,
        "Forbidden",
        f'{subject} is forbidden: {start} resource "{asked.combined}" '
        f'in API group "{asked.group}" {where}{suffix}',
        details={name: value for name, value in details.items() if value},
    )


def _subject(subject: Mapping[str, str], binding: Stored) -> str:
    if subject.get("kind") == "ServiceAccount":
        namespace = subject.get("namespace") or binding.namespace
        return f"User system:serviceaccount:{namespace}:{subject.get('name', '')}"
    return f"{subject.get('kind', '')} {subject.get('name', '')}"


def _described(subject: Mapping[str, str]) -> str:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    place = f"/{subject.get('namespace', '')}" if kind == "ServiceAccount" else ""
    return f'{kind} "{name}{place}"'


def url_fits(pattern: str, path: str) -> bool:
    """Whether a path is one of those that a rule names; a star at the end means all below."""
    if pattern in (ALL, path):
        return True
    return pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL))


def _aggregated(problems: Iterable[str]) -> str:
    texts = tuple(problems)
    if not texts:
        return ""
    return f"RBAC: {texts[0]}" if len(texts) == 1 else f"RBAC: [{', '.join(texts)}]"
