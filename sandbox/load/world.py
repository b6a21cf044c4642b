"""Effects of writes on the objects and their watches."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from common.patches import parse_pointer
from common.quantity import QuantityError, parse_milli, parse_value
from sandbox.load.amounts import Operation, Sized, UnknownChangeError, with_limits
from sandbox.load.changes import Changes
from sandbox.load.layout import CONTAINERS
from sandbox.load.population import FIRST_VERSION, PodState, Population, VpaState, stamp

_ANNOTATIONS = "/metadata/annotations"


class World:
    """The population, its version, and its changes."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self.pods: Changes[PodState] = Changes()
        self.vpas: Changes[VpaState] = Changes()
        self.nothing: Changes[int] = Changes()  # of unchanging objects
        self.version = FIRST_VERSION

    def evict(self, state: PodState, now: datetime) -> None:
        """Delete the pod and create its running successor with the recommended resources."""
        gone = state._replace(version=self._next())
        self.pods.add("DELETED", gone.version, gone)
        successor = self.population.successor(state, version=self._next(), now=now)
        self.population.put_pod(successor)
        self.pods.add("ADDED", successor.version, successor)

    def resize(self, state: PodState, operations: Sequence[Operation], now: datetime) -> bytes:
        """Return the pod with other resources, in its spec and status.

        Raises:
            UnknownChangeError: the patch changes anything else.
        """
        return self._changed(
            state._replace(
                sized=state.sized.patched(operations),
                generation=state.generation + 1,
                resized=stamp(now),
            )
        )

    def annotate(self, state: PodState, operations: Sequence[Operation]) -> bytes:
        """Return the pod with other annotations.

        Raises:
            UnknownChangeError: the patch changes anything else.
        """
        annotations: dict[str, Any] = msgspec.json.decode(state.annotations)
        for operation in operations:
            name = operation.path.removeprefix(f"{_ANNOTATIONS}/")
            if name == operation.path:
                raise UnknownChangeError(f"{operation.op} {operation.path}")
            (key,) = parse_pointer(f"/{name}")
            if operation.op == "remove":
                annotations.pop(key, None)
            else:
                annotations[key] = operation.value
        return self._changed(state._replace(annotations=msgspec.json.encode(annotations)))

    def publish(self, vpa: int, status: bytes) -> bytes:
        """Return the VPA with another status."""
        state = VpaState(vpa, self._next(), status)
        self.population.put_vpa(state, _targets(status))
        self.vpas.add("MODIFIED", state.version, state)
        return self.population.render_vpa(state)

    def _changed(self, state: PodState) -> bytes:
        changed = state._replace(version=self._next())
        self.population.put_pod(changed)
        self.pods.add("MODIFIED", changed.version, changed)
        return self.population.render_pod(changed)

    def _next(self) -> int:
        self.version += 1
        return self.version


class _Recommendation(msgspec.Struct, rename="camel"):
    container_name: str = ""
    target: Mapping[str, str | int | float] = {}


class _Recommendations(msgspec.Struct, rename="camel"):
    container_recommendations: tuple[_Recommendation, ...] = ()


class _Status(msgspec.Struct):
    recommendation: _Recommendations | None = None


_status_decoder = msgspec.json.Decoder(_Status)


def _targets(status: bytes) -> Sized | None:
    """Return the resources that a status recommends; None unless it does for all containers."""
    try:
        found = _status_decoder.decode(status).recommendation or _Recommendations()
        by_name = {one.container_name: one.target for one in found.container_recommendations}
        return with_limits(
            [
                (parse_milli(by_name[name]["cpu"]), parse_value(by_name[name]["memory"]))
                for name in CONTAINERS
            ]
        )
    except (msgspec.DecodeError, QuantityError, KeyError):
        return None
