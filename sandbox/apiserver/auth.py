"""Bearer tokens and their users. Every user may do everything."""

import secrets

from sandbox.admission.request import UserInfo
from sandbox.errors import unauthorized

ADMIN = "kubernetes-admin"


def user_named(username: str) -> UserInfo:
    """Return the user with the groups that its name implies."""
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
    """The issued tokens."""

    def __init__(self) -> None:
        self._users: dict[str, UserInfo] = {}

    def issue(self, username: str, *, token: str = "") -> str:
        """Return a token that authenticates ``username``; a random one unless given."""
        token = token or secrets.token_urlsafe(24)
        self._users[token] = user_named(username)
        return token

    def revoke(self, token: str) -> None:
        """Revoke a token. Requests with it get 401."""
        self._users.pop(token, None)

    def authenticate(self, authorization: str) -> UserInfo:
        """Return the user of an ``Authorization`` header.

        Raises:
            ApiError: 401, the token is missing or unknown.
        """
        scheme, _, token = authorization.partition(" ")
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user
