"""Who is calling: bearer tokens and the users behind them, and those they speak for."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

from sandbox.admission.request import UserInfo
from sandbox.apiserver.authorization import Attributes, Authorizer
from sandbox.apiserver.tokens import API_AUDIENCES, ServiceAccountTokens
from sandbox.errors import bad_request, unauthorized

ADMIN = "kubernetes-admin"
ANONYMOUS = UserInfo(username="system:anonymous", groups=("system:unauthenticated",))


def user_named(username: str) -> UserInfo:
    """The user with the groups that its name implies.

    ``system:serviceaccount:<namespace>:<name>`` gets the groups of service accounts,
    ``system:node:<name>`` that of nodes, the administrator ``system:masters``.
    """
    if username == ADMIN:
        return UserInfo(username=username, groups=("system:masters", "system:authenticated"))
    if username.startswith("system:node:"):
        return UserInfo(username=username, groups=("system:nodes", "system:authenticated"))
    parts = username.split(":")
    if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
        return UserInfo(username=username, groups=(*groups, "system:authenticated"))
    return UserInfo(username=username, groups=("system:authenticated",))


class Authenticator:
    """Knows the tokens, and who comes without one."""

    def __init__(self, tokens: ServiceAccountTokens) -> None:
        self._tokens = tokens
        self._users: dict[str, UserInfo] = {}

    def issue(self, username: str, *, token: str = "") -> str:
        """Return a token that makes its bearer ``username``; a random one unless given."""
        token = token or secrets.token_urlsafe(24)
        self._users[token] = user_named(username)
        return token

    def revoke(self, token: str) -> None:
        """From now on the token is answered with 401."""
        self._users.pop(token, None)

    def authenticate(self, authorization: str) -> UserInfo:
        """The user that an ``Authorization`` header stands for; anonymous without a bearer token.

        Raises:
            ApiError: 401, nobody knows the token.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.user_of(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def user_of(self, token: str, audiences: Sequence[str] = API_AUDIENCES) -> UserInfo | None:
        """The user behind a token that is good for one of ``audiences``, or None.

        Tokens that :meth:`issue` gave out are for the API server itself.
        """
        user = self._users.get(token)
        if user is not None and set(audiences) & set(API_AUDIENCES):
            return user
        return self._tokens.user_of(token, audiences)


def impersonated(user: UserInfo, headers: Mapping[str, str], authorizer: Authorizer) -> UserInfo:
    """The user that a request wants to be taken for: ``kubectl --as``, ``--as-group``.

    It takes the verb ``impersonate`` on users or serviceaccounts, on groups, and on
    ``userextras``. Several groups come in one header value, separated by commas, as the
    headers of a request are joined.

    Raises:
        ApiError: 403, ``user`` may not do that; 400, groups without a user.

    Source: ``WithImpersonation``, k8s.io/apiserver
    pkg/endpoints/filters/impersonation/impersonation.go.
    """
    if not any(name.startswith(_IMPERSONATE) for name in headers):
        return user
    name = headers.get(f"{_IMPERSONATE}user", "")
    uid = headers.get(f"{_IMPERSONATE}uid", "")
    groups = tuple(_values(headers.get(f"{_IMPERSONATE}group", "")))
    extra = {
        unquote(header.removeprefix(_EXTRA)): tuple(_values(value))
        for header, value in headers.items()
        if header.startswith(_EXTRA)
    }
    if not name:
        if uid or groups or extra:
            raise bad_request("requested to impersonate groups, uid or extra without a user name")
        return user
    as_named = user_named(name)
    parts = name.split(":")
    account = len(parts) == len(_ACCOUNT) and parts[:2] == ["system", "serviceaccount"]
    asked = [
        Attributes(verb=_VERB, resource="serviceaccounts", namespace=parts[2], name=parts[3])
        if account
        else Attributes(verb=_VERB, resource="users", name=name)
    ]
    asked += [Attributes(verb=_VERB, resource="groups", name=group) for group in groups]
    group = "authentication.k8s.io"
    if uid:
        asked.append(Attributes(verb=_VERB, group=group, resource="uids", name=uid))
    asked += [
        Attributes(verb=_VERB, group=group, resource="userextras", subresource=key, name=value)
        for key, values in extra.items()
        for value in values
    ]
    for one in asked:
        authorizer.check(user, one)
    own = as_named.groups if account and not groups else groups
    if name == ANONYMOUS.username:
        own = own or ANONYMOUS.groups
    elif not {"system:authenticated", "system:unauthenticated"} & set(own):
        own = (*own, "system:authenticated")
    return replace(as_named, uid=uid, groups=own, extra=extra)


_IMPERSONATE = "impersonate-"
_EXTRA = f"{_IMPERSONATE}extra-"
_VERB = "impersonate"
_ACCOUNT = ("system", "serviceaccount", "namespace", "name")


def _values(joined: str) -> list[str]:
    return [one.strip() for one in joined.split(",") if one.strip()]
