"""Reads of the API server with the person's own rights; what can't be read becomes a note."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from common.errors import DecodeError, ForbiddenError, GoneError, KubeError, NotFoundError
from common.kube.client import METADATA_LIST, KubeClient
from common.kube.endpoints import Endpoint
from common.kube.paginated_list import fold_pages
from common.kube.transport import Query

T = TypeVar("T")
F = TypeVar("F")

_PAGE = 500  # objects in one request
_RESTARTS = 3  # of a list whose continue token expired

Progress = Callable[[str, int], None]
"""Is called with a resource and the number of its objects that were read so far."""


@dataclass(slots=True)
class Reader:
    """Reads lists and objects, and collects notes about those that it couldn't read."""

    client: KubeClient
    namespace: str  # empty: all namespaces
    progress: Progress = lambda _resource, _count: None
    notes: list[str] = field(default_factory=list)

    def elsewhere(self, namespace: str) -> "Reader":
        """Return a reader of another namespace, or of all, which adds to the same notes."""
        return Reader(self.client, namespace, self.progress, self.notes)

    async def list(
        self,
        endpoint: Endpoint[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        needed: bool = False,
    ) -> Sequence[T] | None:
        """Return all objects of the namespace, or of all; None with a note if that is refused.

        Raises:
            KubeError: the list is ``needed`` and was refused, or the API server is unreachable.
        """
        try:
            listing = await self.client.list(
                endpoint,
                namespace=self.namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            )
        except (KubeError, DecodeError) as error:
            self._missed(endpoint, error, needed=needed)
            return None
        self._undecodable(endpoint, listing.undecodable)
        self.progress(endpoint.resource, len(listing.items))
        return listing.items

    async def fold(
        self,
        endpoint: Endpoint[T],
        begin: Callable[[], F],
        take: Callable[[F, Sequence[T]], None],
        *,
        label_selector: str = "",
        field_selector: str = "",
        needed: bool = False,
    ) -> F | None:
        """Pass all objects to ``take``, page by page, with a value that ``begin`` makes.

        Nothing but this value is kept of them. None with a note if the list is refused.

        Raises:
            KubeError: the list is ``needed`` and was refused, or the API server is unreachable.
        """
        path = endpoint.collection(self.namespace)
        accept = METADATA_LIST if endpoint.metadata_only else ""
        query: Query = {"limit": _PAGE}
        if label_selector:
            query = {**query, "labelSelector": label_selector}
        if field_selector:
            query = {**query, "fieldSelector": field_selector}

        async def fetch(token: str) -> bytes:
            return await self.client.request(
                "GET",
                path,
                query={**query, "continue": token} if token else query,
                accept=accept,
            )

        for attempt in range(_RESTARTS + 1):
            value, read = begin(), 0

            def taken(items: Sequence[T], value: F = value) -> None:
                nonlocal read
                read += len(items)
                take(value, items)
                self.progress(endpoint.resource, read)

            try:
                listing = await fold_pages(endpoint, path, fetch, taken)
            except GoneError as error:
                if attempt == _RESTARTS:
                    self._missed(endpoint, error, needed=needed)
            except (KubeError, DecodeError) as error:
                self._missed(endpoint, error, needed=needed)
                return None
            else:
                self._undecodable(endpoint, listing.undecodable)
                return value
        return None

    async def get(self, endpoint: Endpoint[T], name: str, *, namespace: str = "") -> T | None:
        """Return one object; None if it doesn't exist, or with a note if that is refused."""
        try:
            return await self.client.get(endpoint, name, namespace=namespace or self.namespace)
        except NotFoundError:
            return None
        except (KubeError, DecodeError) as error:
            self._missed(endpoint, error)
            return None

    def note(self, text: str) -> None:
        """Add a note about something that could not be seen."""
        if text not in self.notes:
            self.notes.append(text)

    def _missed(
        self, endpoint: Endpoint[T], error: KubeError | DecodeError, *, needed: bool = False
    ) -> None:
        if needed or not isinstance(error, (ForbiddenError, NotFoundError, GoneError, DecodeError)):
            raise error
        place = f" in {self.namespace}" if self.namespace else ""
        self.note(f"{endpoint.resource}{place}: {_why(error)}")

    def _undecodable(self, endpoint: Endpoint[T], names: Sequence[str]) -> None:
        if names:
            shown = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
            self.note(f"{len(names)} {endpoint.resource} of an unexpected form: {shown}")


def _why(error: KubeError | DecodeError) -> str:
    if isinstance(error, ForbiddenError):
        return "you may not list them"
    if isinstance(error, NotFoundError):
        return "the cluster doesn't serve them"
    return str(error)
