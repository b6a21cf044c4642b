"""Tokens of service accounts: signed statements that are worth nothing when what they name goes.

Source: k8s.io/kubernetes pkg/serviceaccount/claims.go and jwt.go.
"""

import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from common.runtime.clock import Clock
from sandbox.admission.request import UserInfo
from sandbox.objects.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from sandbox.objects.store import Store, Stored

ISSUER = "https://kubernetes.default.svc.cluster.local"
API_AUDIENCES = (ISSUER,)

_ES256 = ec.ECDSA(hashes.SHA256())
_HALF = 32  # bytes of each of the two numbers of a signature
_JWT_PARTS = 3
_KUBELET_SECONDS = 3607  # what kubelets ask for; such a token is good for a year, to be lenient
_LENIENT = timedelta(days=365)
_REMEMBERED = 10_000  # verified tokens
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_ABOUT = "authentication.kubernetes.io/"


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a token speaks of."""

    name: str
    uid: str


class _Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    namespace: str
    node: Reference | None = None
    pod: Reference | None = None
    secret: Reference | None = None
    serviceaccount: Reference
    warnafter: int = 0


class _Token(msgspec.Struct, frozen=True, kw_only=True):
    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    kubernetes: _Claims = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The object that a token lives and dies with."""

    resource: Resource
    stored: Stored


class ServiceAccountTokens:
    """Issues and recognizes them, with a key that is made at the start and never leaves."""

    def __init__(self, store: Store, clock: Clock, rng: Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._known: dict[str, _Token] = {}

    def issue(
        self, account: Stored, *, audiences: Sequence[str], seconds: int, bound: Bound | None
    ) -> tuple[str, datetime]:
        """A token of a service account, and when its bearer should have another one.

        The token of 3607 seconds that a kubelet asks for is good for a year: clients that
        never read it again are only counted in a real cluster, not refused.
        """
        now = self._clock.now()
        until = now + timedelta(seconds=seconds)
        expires, warn_after = until, 0
        if seconds == _KUBELET_SECONDS and tuple(audiences) == API_AUDIENCES:
            expires, warn_after = now + _LENIENT, int(until.timestamp())
        token = _Token(
            aud=tuple(audiences),
            exp=int(expires.timestamp()),
            iat=int(now.timestamp()),
            iss=ISSUER,
            jti=str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            kubernetes=_Claims(
                namespace=account.namespace,
                serviceaccount=_reference(account),
                warnafter=warn_after,
                **self._bound_claims(bound),
            ),
            nbf=int(now.timestamp()),
            sub=f"system:serviceaccount:{account.namespace}:{account.name}",
        )
        return self._signed(token), until

    def user_of(self, token: str, audiences: Sequence[str] = API_AUDIENCES) -> UserInfo | None:
        """The account behind a token; None when it isn't ours, or no longer good.

        It has to be for one of ``audiences``, its time must not be over, and the account and
        the object it is bound to must be the ones that it was issued for.
        """
        read = self._known.get(token) or self._verified(token)
        if read is None or not set(audiences) & set(read.aud):
            return None
        if not read.nbf <= int(self._clock.now().timestamp()) < read.exp:
            return None
        claims = read.kubernetes
        there = (
            self._is(SERVICE_ACCOUNTS, claims.namespace, claims.serviceaccount)
            and self._is(PODS, claims.namespace, claims.pod)
            and self._is(SECRETS, claims.namespace, claims.secret)
            and (claims.pod is not None or self._is(NODES, "", claims.node))
        )
        return _user(read) if there else None

    def audiences_of(self, token: str) -> tuple[str, ...]:
        """For whom a token of ours is; nothing for other tokens."""
        read = self._known.get(token) or self._verified(token)
        return () if read is None else read.aud

    def _is(self, resource: Resource, namespace: str, wanted: Reference | None) -> bool:
        if wanted is None:
            return True
        stored = self._store.get(resource, namespace, wanted.name)
        return stored is not None and stored.uid == wanted.uid

    def _bound_claims(self, bound: Bound | None) -> dict[str, Reference]:
        if bound is None:
            return {}
        claims = {bound.resource.singular: _reference(bound.stored)}
        if bound.resource is PODS:
            name = bound.stored.object(PODS)["spec"].get("nodeName")
            node = self._store.get(NODES, "", name) if name else None
            if node is not None:
                claims["node"] = _reference(node)
        return claims

    def _signed(self, token: _Token) -> str:
        head = _encoded(msgspec.json.encode({"alg": "ES256", "kid": "sandbox"}))
        signed = f"{head}.{_encoded(msgspec.json.encode(token))}"
        numbers = decode_dss_signature(self._key.sign(signed.encode(), _ES256))
        signature = b"".join(number.to_bytes(_HALF) for number in numbers)
        return f"{signed}.{_encoded(signature)}"

    def _verified(self, text: str) -> _Token | None:
        parts = text.split(".")
        if len(parts) != _JWT_PARTS:
            return None
        try:
            raw = _decoded(parts[2])
            if len(raw) != 2 * _HALF:
                return None
            signature = encode_dss_signature(
                int.from_bytes(raw[:_HALF]), int.from_bytes(raw[_HALF:])
            )
            signed = f"{parts[0]}.{parts[1]}".encode()
            self._key.public_key().verify(signature, signed, _ES256)
            token = msgspec.json.decode(_decoded(parts[1]), type=_Token)
        except (InvalidSignature, ValueError, msgspec.DecodeError):
            return None
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[text] = token
        return token


def _user(token: _Token) -> UserInfo:
    claims = token.kubernetes
    extra: dict[str, tuple[str, ...]] = {_CREDENTIAL: (f"JTI={token.jti}",)}
    for kind, one in (("node", claims.node), ("pod", claims.pod)):
        if one is not None:
            extra[f"{_ABOUT}{kind}-name"] = (one.name,)
            extra[f"{_ABOUT}{kind}-uid"] = (one.uid,)
    return UserInfo(
        username=token.sub,
        uid=claims.serviceaccount.uid,
        groups=(
            "system:serviceaccounts",
            f"system:serviceaccounts:{claims.namespace}",
            "system:authenticated",
        ),
        extra=extra,
    )


def bound_kinds() -> Mapping[str, Resource]:
    """The kinds that a token can be bound to."""
    return {"Pod": PODS, "Secret": SECRETS, "Node": NODES}


def _reference(stored: Stored) -> Reference:
    return Reference(name=stored.name, uid=stored.uid)


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
