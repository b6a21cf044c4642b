"""Requests of one user who wants to be taken for another: ``kubectl --as``, ``--as-group``.

Up to 1.35 it takes the verb ``impersonate`` on users or serviceaccounts, on groups, ``uids`` and
``userextras``. From 1.36 on, rights may be narrower: the verb ``impersonate:<mode>`` for whom, and
``impersonate-on:<mode>:<verb>`` for what; the old verb still does. A refusal is that of the mode
that succeeded last for this user, or of the first one that is meant for the wanted user.

Source: k8s.io/apiserver pkg/endpoints/filters/impersonation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from sandbox.admission.request import UserInfo
from sandbox.apiserver.auth import ANONYMOUS, user_named
from sandbox.apiserver.authorization import MASTERS, Attributes, Authorizer, denied
from sandbox.errors import ApiError, bad_request, shown

_CONSTRAINED_SINCE = 36  # minor
_MANY = 4  # groups or extras from which on a rule for all of them is looked for first
_PREFIX = "impersonate-"
_EXTRA = f"{_PREFIX}extra-"
_VERB = "impersonate"
_AUTHENTICATION = "authentication.k8s.io"
_NODE_USER = "system:node:"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
_ACCOUNT_PARTS = 4  # system, serviceaccount, namespace, name
_ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Whom a request wants to be taken for, as its headers say."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_only_a_name(self) -> bool:
        return not (self.uid or self.groups or self.extra)

    @property
    def node(self) -> str:
        return self.name.removeprefix(_NODE_USER) if self.name.startswith(_NODE_USER) else ""

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name of a service account."""
        parts = self.name.split(":")
        found = len(parts) == _ACCOUNT_PARTS and parts[:2] == ["system", "serviceaccount"]
        return (parts[2], parts[3]) if found else None


def _is_own_node(wanted: _Wanted, user: UserInfo) -> bool:
    """Whether this is the node on which the pod of a service account runs."""
    known = user.extra.get(_NODE_NAME, ())
    return bool(wanted.node) and wanted.is_only_a_name and known == (wanted.node,)


_MODES: Mapping[str, Callable[[_Wanted, UserInfo], bool]] = {  # in the order in which they're tried
    "associated-node": _is_own_node,
    "arbitrary-node": lambda wanted, _: bool(wanted.node) and wanted.is_only_a_name,
    "serviceaccount": lambda wanted, _: wanted.account is not None and wanted.is_only_a_name,
    "user-info": lambda wanted, _: not wanted.node and wanted.account is None,
    "": lambda _wanted, _user: True,  # the old verb
}


class Impersonation:
    """Decides for one API server who somebody may be taken for."""

    def __init__(self, authorizer: Authorizer, minor: int) -> None:
        self._authorizer = authorizer
        self._minor = minor
        self._last: dict[str, str] = {}  # by user, the mode that succeeded

    def user(self, user: UserInfo, headers: Mapping[str, str], asked: Attributes) -> UserInfo:
        """The user as whom a request is to be handled; ``asked`` is what it is about.

        Several groups come in one header value, separated by commas, as the headers of a request
        are joined.

        Raises:
            ApiError: 403, ``user`` may not do that; 400, groups without a user.
        """
        if not any(name.startswith(_PREFIX) for name in headers):
            return user
        wanted = self._wanted(headers)
        if wanted is None:
            return user
        if self._minor < _CONSTRAINED_SINCE:
            return self._as(wanted, user, "")
        refusal: ApiError | None = None
        last = self._last.get(user.username)
        modes = [mode for mode, fits in _MODES.items() if fits(wanted, user)]
        for mode in sorted(modes, key=lambda one: one != last):
            try:
                if mode:
                    verb = f"{_VERB}-on:{mode}:{asked.verb}"
                    self._authorizer.check(user, replace(asked, verb=verb))
                found = self._as(wanted, user, mode)
            except ApiError as error:
                refusal = refusal or error
            else:
                self._last[user.username] = mode
                return found
        raise refusal or RuntimeError("the old verb is for everybody")

    def _wanted(self, headers: Mapping[str, str]) -> _Wanted | None:
        wanted = _Wanted(
            name=headers.get(f"{_PREFIX}user", ""),
            uid=headers.get(f"{_PREFIX}uid", ""),
            groups=_values(headers.get(f"{_PREFIX}group", "")),
            extra={
                unquote(header.removeprefix(_EXTRA)): _values(value)
                for header, value in headers.items()
                if header.startswith(_EXTRA)
            },
        )
        if wanted.name:
            return wanted
        if wanted.is_only_a_name:
            return None
        if self._minor < _CONSTRAINED_SINCE:
            raise bad_request("requested to impersonate groups, uid or extra without a user name")
        raise bad_request(f"requested {_in_go(wanted)} without impersonating a user name")

    def _as(self, wanted: _Wanted, user: UserInfo, mode: str) -> UserInfo:
        """The wanted user, if every part of it is allowed."""
        verb = f"{_VERB}:{mode}" if mode else _VERB
        group = _AUTHENTICATION if mode else ""
        about = Attributes(verb=verb, group=group, resource="users", name=wanted.name)
        groups = wanted.groups
        if wanted.account is not None:
            namespace, name = wanted.account
            about = replace(about, resource="serviceaccounts", namespace=namespace, name=name)
            groups = groups or user_named(wanted.name).groups
        elif mode and wanted.node:
            shared = mode == "associated-node"  # the right holds for every node or for none
            about = replace(about, resource="nodes", name=_ANY if shared else wanted.node)
            groups = ("system:nodes",)
        self._authorizer.check(user, about)
        for one in self._parts(wanted, user, verb, constrained=bool(mode)):
            self._authorizer.check(user, one)
        if wanted.name == ANONYMOUS.username:
            groups = groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
        elif not {_AUTHENTICATED, _UNAUTHENTICATED} & set(groups):
            groups = (*groups, _AUTHENTICATED)
        return UserInfo(username=wanted.name, uid=wanted.uid, groups=groups, extra=wanted.extra)

    def _parts(
        self, wanted: _Wanted, user: UserInfo, verb: str, *, constrained: bool
    ) -> list[Attributes]:
        """What has to be allowed beside the name.

        Raises:
            ApiError: 403, nobody may have that by the newer verbs.
        """
        about = Attributes(verb=verb, group=_AUTHENTICATION if constrained else "")
        parts = []
        if wanted.uid:
            parts.append(replace(about, group=_AUTHENTICATION, resource="uids", name=wanted.uid))
        about = replace(about, resource="groups")
        if constrained and MASTERS in wanted.groups:
            text = f"impersonating the {MASTERS} group is not allowed"
            raise denied(user, replace(about, name=MASTERS), text)
        groups = [replace(about, name=name) for name in wanted.groups]
        if not (constrained and self._all(user, groups)):
            parts += groups
        about = replace(about, group=_AUTHENTICATION, resource="userextras")
        extras = [
            replace(about, subresource=key, name=value)
            for key, values in wanted.extra.items()
            for value in values
        ]
        if not (constrained and self._all(user, extras)):
            parts += extras
        return parts

    def _all(self, user: UserInfo, parts: list[Attributes]) -> bool:
        """Whether many parts are allowed by one rule for all."""
        if len(parts) < _MANY:
            return False
        about = replace(parts[0], name=_ANY)
        if about.subresource:
            about = replace(about, subresource=_ANY)
        return self._authorizer.decide(user, about).allowed


def _values(joined: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in joined.split(",") if one.strip())


def _in_go(wanted: _Wanted) -> str:
    """The headers as a refusal shows them: a struct of Go."""
    groups = "[]string(nil)"
    if wanted.groups:
        groups = f"[]string{{{', '.join(map(shown, wanted.groups))}}}"
    extra = "map[string][]string(nil)"
    if wanted.extra:
        pairs = (
            f"{shown(key)}:[]string{{{', '.join(map(shown, values))}}}"
            for key, values in sorted(wanted.extra.items())
        )
        extra = f"map[string][]string{{{', '.join(pairs)}}}"
    return (
        f"&user.DefaultInfo{{Name:{shown(wanted.name)}, UID:{shown(wanted.uid)}, "
        f"Groups:{groups}, Extra:{extra}}}"
    )
