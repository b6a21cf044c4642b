"""Boundaries around single objects: an error of one doesn't affect other objects.

Each loop over many objects of the cluster has a boundary around each object. Errors outside of
these boundaries are bugs of the process itself, and end it.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from types import TracebackType

from prometheus_client import CollectorRegistry, Counter

logger = logging.getLogger(__name__)

_MOST_LOGGED = 1000  # errors that are not logged again


class ObjectErrors:
    """Catches unexpected errors around single objects, counts them, and logs each one once."""

    def __init__(self, component: str, registry: CollectorRegistry) -> None:
        self._counter = Counter(
            "object_errors",
            "Unexpected errors around single objects, which were left out, by stage.",
            ("stage",),
            namespace=f"vpa_{component}",
            registry=registry,
        )
        self._logged: OrderedDict[tuple[str, str, type[BaseException]], None] = OrderedDict()

    def around(self, stage: str, kind: str, namespace: str, name: str) -> "Boundary":
        """Return a context manager whose block ends at an exception, which is suppressed.

        ``stage`` names the operation, in a word that can be a metric label.
        """
        return Boundary(self, stage, kind, namespace, name)

    def record(self, error: BaseException, stage: str, named: str) -> None:
        """Count the error; log it with its traceback unless it was logged before."""
        self._counter.labels(stage).inc()
        key = (stage, named, type(error))
        if key in self._logged:
            self._logged.move_to_end(key)
            return
        self._logged[key] = None
        if len(self._logged) > _MOST_LOGGED:
            self._logged.popitem(last=False)
        extra = {"stage": stage, "object": named}
        logger.error("object skipped after an unexpected error", extra=extra, exc_info=error)


@dataclass(slots=True)
class Boundary:
    """A context manager that suppresses ``Exception``, but not cancellation or exit."""

    errors: ObjectErrors
    stage: str
    kind: str
    namespace: str
    name: str

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        self.errors.record(error, self.stage, f"{self.kind} {where}")
        return True
