"""Token and access reviews by the API server, and its own addresses; all of them cached."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from common.api.base import Wire
from common.api.meta import ObjectMeta
from common.errors import DecodeError, KubeError
from common.kube.client import KubeClient
from common.kube.encoding import decoded, typed
from common.kube.endpoints import VPAS, Endpoint
from common.read_api.access import (
    EVERYWHERE,
    AccessError,
    Address,
    UserInfo,
    parse_addresses,
)

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST_CALLS: Final = 16
"""Reviews at once."""
KEPT_SECONDS: Final = 60.0
"""How long a valid token, an allowed namespace, and the addresses of API servers are cached."""
KEPT_REFUSAL_SECONDS: Final = 10.0
"""How long an invalid token, and a denied namespace, are cached."""

_MOST_USERS = 1000  # tokens; an owner may have hundreds of groups
_MOST_ANSWERS = 10_000  # persons and namespaces; some 200 bytes each
_CALL_SECONDS = 5.0
_QPS, _BURST = 20.0, 50.0  # apart from the calls of passes


class _TokenReviewSpec(Wire, frozen=True, kw_only=True):
    token: str = ""


class _TokenReviewStatus(Wire, frozen=True, kw_only=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()


class TokenReview(Wire, frozen=True, kw_only=True):
    """The answer to the question who owns a token; the token isn't decoded."""

    status: _TokenReviewStatus = _TokenReviewStatus()


class _AccessReviewStatus(Wire, frozen=True, kw_only=True):
    allowed: bool = False


class SubjectAccessReview(Wire, frozen=True, kw_only=True):
    """The answer to the question what a person may do."""

    status: _AccessReviewStatus = _AccessReviewStatus()


class _SliceEndpoint(Wire, frozen=True, kw_only=True):
    addresses: tuple[str, ...] | None = None


class EndpointSlice(Wire, frozen=True, kw_only=True):
    """The addresses of some endpoints of a Service."""

    metadata: ObjectMeta
    endpoints: tuple[_SliceEndpoint, ...] | None = None


TOKEN_REVIEWS = Endpoint(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", TokenReview, namespaced=False
)
ACCESS_REVIEWS = Endpoint(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
    SubjectAccessReview,
    namespaced=False,
)
ENDPOINT_SLICES = Endpoint(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", EndpointSlice
)
API_SERVER_NAMESPACE = "default"
"""The namespace of the Service ``kubernetes``, whose endpoints are the API servers."""

ACCESS = (
    TOKEN_REVIEWS.access("create"),
    ACCESS_REVIEWS.access("create"),
    ENDPOINT_SLICES.access("list"),  # in ``API_SERVER_NAMESPACE`` alone
)
"""The permissions for the read API; it serves loopback without them."""

_OF_API_SERVERS = "kubernetes.io/service-name=kubernetes"


class ExpiringAnswers(Generic[K, V]):
    """Answers that expire; concurrent equal questions share one, and the oldest are dropped."""

    def __init__(self, seconds: Callable[[V], float], most: int) -> None:
        """Create it; ``seconds`` is how long an answer is kept, and ``most`` how many are."""
        self._seconds = seconds
        self._most = most
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the answer to a question; errors aren't cached."""
        lock = self._asking.get(key)
        if lock is None:
            lock = self._asking[key] = asyncio.Lock()
        async with lock:
            now = asyncio.get_running_loop().time
            known = self._answers.get(key)
            if known is not None and now() < known[0]:
                return known[1]
            answer = await ask()
            self._answers[key] = (now() + self._seconds(answer), answer)
            self._answers.move_to_end(key)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
            return answer


class ApiServerReviews:
    """Reviews by the API server. Tokens are kept as digests alone."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client.with_rate_limit(qps=_QPS, burst=_BURST)
        self._calls = asyncio.Semaphore(MOST_CALLS)
        self._users = ExpiringAnswers[bytes, UserInfo | None](
            lambda user: KEPT_REFUSAL_SECONDS if user is None else KEPT_SECONDS, _MOST_USERS
        )
        self._allowed = ExpiringAnswers[bytes, bool](
            lambda allowed: KEPT_SECONDS if allowed else KEPT_REFUSAL_SECONDS, _MOST_ANSWERS
        )
        self._trouble = ""

    async def user_of(self, token: str) -> UserInfo | None:
        """Return the owner of a token; None: the token isn't valid."""
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        return await self._users.get(key, lambda: self._review_token(token))

    async def may_read(self, user: UserInfo, namespace: str) -> bool:
        """Return whether the person may get VPAs in a namespace, or EVERYWHERE."""
        return await self._allowed.get(
            _digest(user, namespace), lambda: self._review_access(user, namespace)
        )

    async def _review_token(self, token: str) -> UserInfo | None:
        status = (await self._create(TOKEN_REVIEWS, {"token": token})).status
        return status.user if status.authenticated else None

    async def _review_access(self, user: UserInfo, namespace: str) -> bool:
        attributes = {"verb": "get", "group": VPAS.group, "resource": VPAS.resource}
        if namespace != EVERYWHERE:
            attributes["namespace"] = namespace
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or (),
            "extra": user.extra or {},
            "resourceAttributes": attributes,
        }
        return (await self._create(ACCESS_REVIEWS, spec)).status.allowed

    async def _create(self, endpoint: Endpoint[V], spec: Mapping[str, object]) -> V:
        try:
            async with self._calls:
                answer = await self._client.request(
                    "POST",
                    endpoint.collection(),
                    body=typed(endpoint, {"spec": spec}),
                    seconds=_CALL_SECONDS,
                    timeout_is_outage=False,  # a webhook of the API server may cause it
                )
            found = decoded(endpoint, answer)
        except (KubeError, DecodeError) as error:
            self._report(endpoint.resource, _cause(error))
            text = "the API server can't review the token; kubectl port-forward needs none"
            raise AccessError(503, text) from error
        self._report(endpoint.resource, "")
        return found

    def _report(self, resource: str, error: str) -> None:
        """Log an error that differs from the last one."""
        if error and error != self._trouble:
            extra = {"resource": resource, "error": error}
            logger.warning("read API can't review tokens", extra=extra)
        self._trouble = error


def _cause(error: KubeError | DecodeError) -> str:
    """Return the reason of an error; its text may contain parts of a request."""
    return f"{error.status} {error.reason}" if isinstance(error, KubeError) else "not understood"


def _digest(user: UserInfo, namespace: str) -> bytes:
    """Return a key of fixed size for a person and a namespace."""
    extra = sorted((name, *values) for name, values in (user.extra or {}).items())
    parts = repr((user.username, user.uid, user.groups, extra, namespace))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()


class ApiServerAddresses:
    """The addresses from which API servers call, which are those of their Service's endpoints.

    They are read again after a minute, and for an unknown caller after ten seconds.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client.with_rate_limit(qps=_QPS, burst=_BURST)
        self._known: Collection[Address] = frozenset()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._trouble = ""

    async def includes(self, address: Address) -> bool:
        """Return whether an API server has this address."""
        async with self._reading:
            age = asyncio.get_running_loop().time() - self._read_at
            kept = KEPT_SECONDS if address in self._known else KEPT_REFUSAL_SECONDS
            if age >= kept:
                await self.read()
            return address in self._known

    async def read(self) -> None:
        """Read the addresses; without an answer the last ones stay."""
        self._read_at = asyncio.get_running_loop().time()
        try:
            listing = await self._client.list(
                ENDPOINT_SLICES, namespace=API_SERVER_NAMESPACE, label_selector=_OF_API_SERVERS
            )
        except (KubeError, DecodeError) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                text = "read API doesn't know the addresses of API servers"
                logger.warning(text, extra={"error": self._trouble})
            return
        self._trouble = ""
        self._known = parse_addresses(
            text
            for one in listing.items
            for endpoint in one.endpoints or ()
            for text in endpoint.addresses or ()
        )
