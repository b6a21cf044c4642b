"""Who is calling: bearer tokens and the users behind them. Every user may do everything."""

import secrets

from sandbox.admission.request import UserInfo
from sandbox.errors import unauthorized

ADMIN = "kubernetes-admin"


def user_named(username: str) -> UserInfo:
    """Return the user with the groups that its name implies, as webhooks see them."""
    groups: tuple[str, ...] = ()
    parts = username.split(":")
    if username == ADMIN:
        groups = ("system:masters",)
    elif username.startswith("system:node:"):
        groups = ("system:nodes",)
    elif parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    return UserInfo(username=username, groups=(*groups, "system:authenticated"))


class Authenticator:
    """Knows the tokens."""

    def __init__(self) -> None:
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
        """Return the user that an ``Authorization`` header stands for.

        Raises:
            ApiError: 401, there is no token, or an unknown one.
        """
        scheme, _, token = authorization.partition(" ")
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user
