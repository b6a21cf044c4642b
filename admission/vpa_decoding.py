"""Reading a VPA as people wrote it, before the API server has applied the schema.

Source: ``parseVPA``, vertical-pod-autoscaler/pkg/admission-controller/resource/vpa/handler.go;
admission.md 8.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from common.api.autoscaling import (
    ContainerPolicy,
    StartupBoost,
    VerticalPodAutoscaler,
    VpaSpec,
)
from common.api.base import QuantityJson, Wire
from common.api.meta import ObjectMeta
from common.errors import DecodeError
from common.quantity import Quantity

LARGEST_VPA = 1024 * 1024  # bytes; etcd stores objects of at most one and a half times this

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1

Boost = tuple[str, StartupBoost]


class _Written(Wire, frozen=True, kw_only=True):
    """A VPA as people write it; the API server drops a status, whatever it is."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VpaSpec = VpaSpec()


_decoder = msgspec.json.Decoder(_Written)


def check_size(raw: bytes) -> None:
    """Hold a new object to what can be stored and checked without making others wait.

    Raises:
        DecodeError: the object is larger.
    """
    size = memoryview(raw).nbytes
    if size > LARGEST_VPA:
        raise DecodeError(f"the object has {size} bytes, more than the {LARGEST_VPA} of a VPA")


def decode(raw: bytes) -> VerticalPodAutoscaler:
    """Read a VPA, strict about types, lenient about unknown fields and explicit nulls.

    The webhook sees objects before the API server applies the schema, so this is where a
    quantity that is an object, or a list in place of a map, has to be found.

    Raises:
        DecodeError: with a sentence that names the place.
    """
    try:
        written = _written(raw)
    except RecursionError as error:
        raise DecodeError("the object is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise DecodeError(str(error)) from error
    vpa = VerticalPodAutoscaler(metadata=written.metadata, spec=written.spec)
    for path, value in _quantities(vpa):
        try:
            Quantity.from_json(value)
        except DecodeError as error:
            raise DecodeError(f"{path}: {error}") from error
    for path, number, most in _integers(vpa):
        if number is not None and not -most - 1 <= number <= most:
            raise DecodeError(f"{path}: {number} is not between {-most - 1} and {most}")
    return vpa


def container_policies(vpa: VerticalPodAutoscaler) -> Iterator[tuple[str, ContainerPolicy]]:
    """The policies of single containers, in order, each with its path."""
    policy = vpa.spec.resource_policy
    for index, found in enumerate((policy.container_policies or ()) if policy is not None else ()):
        yield f"spec.resourcePolicy.containerPolicies[{index}]", found


def startup_boosts(vpa: VerticalPodAutoscaler) -> Iterator[Boost]:
    """The boosts that are written down, the containers' before the one of all, with their paths."""
    for path, policy in container_policies(vpa):
        if policy.startup_boost is not None:
            yield f"{path}.startupBoost", policy.startup_boost
    if vpa.spec.startup_boost is not None:
        yield "spec.startupBoost", vpa.spec.startup_boost


def _quantities(vpa: VerticalPodAutoscaler) -> Iterator[tuple[str, QuantityJson]]:
    """Every quantity of the spec, as written."""
    for path, policy in container_policies(vpa):
        for field, bounds in (
            ("minAllowed", policy.min_allowed),
            ("maxAllowed", policy.max_allowed),
        ):
            for name, value in (bounds or {}).items():
                yield f"{path}.{field}[{name}]", value
        yield f"{path}.oomBumpUpRatio", policy.oom_bump_up_ratio
        yield f"{path}.oomMinBumpUp", policy.oom_min_bump_up
    for path, boost in startup_boosts(vpa):
        if boost.cpu is not None:
            yield f"{path}.cpu.quantity", boost.cpu.quantity


def _integers(vpa: VerticalPodAutoscaler) -> Iterator[tuple[str, int | None, int]]:
    """Every integer of the spec, with the largest that Go's type holds."""
    update = vpa.spec.update_policy
    if update is not None:
        yield "spec.updatePolicy.minReplicas", update.min_replicas, _MAX_INT32
        seconds = update.evict_after_oom_seconds
        yield "spec.updatePolicy.evictAfterOOMSeconds", seconds, _MAX_INT32
    for path, policy in container_policies(vpa):
        seconds = policy.memory_aggregation_interval_seconds
        yield f"{path}.memoryAggregationIntervalSeconds", seconds, _MAX_INT32
        count = policy.memory_aggregation_interval_count
        yield f"{path}.memoryAggregationIntervalCount", count, _MAX_INT64
    for path, boost in startup_boosts(vpa):
        if boost.cpu is not None:
            yield f"{path}.cpu.factor", boost.cpu.factor, _MAX_INT32
            yield f"{path}.cpu.durationSeconds", boost.cpu.duration_seconds, _MAX_INT32


def _written(raw: bytes) -> _Written:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        if b"null" not in memoryview(raw).tobytes():
            raise
    # To Go, a null is a field that was not written. Few objects have any, and only they pay.
    plain = _without_nulls(msgspec.json.decode(raw))
    return msgspec.convert({} if plain is None else plain, _Written)


def _without_nulls(value: Any) -> Any:
    """Drop null members of objects: to Go, a null is a field that was not written."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
