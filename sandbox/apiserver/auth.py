"""Who is calling: bearer tokens and the users behind them."""

import secrets
from collections.abc import Sequence

from sandbox.admission.request import UserInfo
from sandbox.apiserver.tokens import API_AUDIENCES, ServiceAccountTokens
from sandbox.errors import unauthorized

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
