"""The decoder of VPAs to which the API server has not applied the schema yet.

Source: ``parseVPA``, vertical-pod-autoscaler/pkg/admission-controller/resource/vpa/handler.go;
admission.md 8.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from admission.field_errors import brief, quoted
from common.api.autoscaling import (
    ContainerPolicy,
    StartupBoost,
    VerticalPodAutoscaler,
    VpaSpec,
)
from common.api.base import Wire
from common.api.meta import ObjectMeta
from common.errors import DecodeError
from common.quantity import Quantity, QuantityError

LARGEST_VPA = 1024 * 1024  # bytes; etcd stores objects of at most 1.5 MiB

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1
_LONGEST_VALUE = 100  # characters of a bad value in a warning; API servers cut long warnings

_Shape: TypeAlias = "Mapping[str, _Shape] | tuple[_Shape] | None"
"""Members by name, or the items of a list; None stands for a quantity."""
_ANY_NAME = "*"
_AMOUNTS: _Shape = {_ANY_NAME: None}
_BOOST: _Shape = {"cpu": {"quantity": None}}
_QUANTITIES: _Shape = {
    "resourcePolicy": {
        "containerPolicies": (
            {
                "minAllowed": _AMOUNTS,
                "maxAllowed": _AMOUNTS,
                "oomBumpUpRatio": None,
                "oomMinBumpUp": None,
                "startupBoost": _BOOST,
            },
        )
    },
    "startupBoost": _BOOST,
}


class BadQuantityError(DecodeError):
    """A field of a VPA is not a quantity, but has to be.

    The text is the reference's, which names neither field nor value; ``warning`` names both (X113).
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(problem)
        shown = quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
        if len(shown) > _LONGEST_VALUE:
            shown = f"{shown[:_LONGEST_VALUE]}..."
        self.warning = brief(f"{field}: {shown} is not a quantity")


class _WrittenVpa(Wire, frozen=True, kw_only=True):
    """A VPA without status: the API server ignores any status in these writes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VpaSpec = VpaSpec()


_decoder = msgspec.json.Decoder(_WrittenVpa)


def check_size(raw: bytes) -> None:
    """Check that an object isn't larger than ``LARGEST_VPA``, so that it doesn't delay reviews.

    Raises:
        DecodeError: the object is larger.
    """
    size = memoryview(raw).nbytes
    if size > LARGEST_VPA:
        raise DecodeError(f"the object has {size} bytes, more than the {LARGEST_VPA} of a VPA")


def decode(raw: bytes) -> VerticalPodAutoscaler:
    """Decode a VPA. Check types strictly; ignore unknown fields and explicit nulls.

    Raises:
        BadQuantityError: a quantity can't be parsed. The first bad quantity takes precedence over
            other errors.
        DecodeError: another error; the text contains the path.
    """
    _check_quantities(raw)
    try:
        written = _written(raw)
    except RecursionError as error:
        raise DecodeError("the object is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise DecodeError(str(error)) from error
    vpa = VerticalPodAutoscaler(metadata=written.metadata, spec=written.spec)
    _check_integers(vpa)
    return vpa


def container_policies(vpa: VerticalPodAutoscaler) -> tuple[ContainerPolicy, ...]:
    """Return the policies of single containers, in order."""
    policy = vpa.spec.resource_policy
    return (policy.container_policies or ()) if policy is not None else ()


def path_of_policy(index: int) -> str:
    """Return the path of the policy with this index."""
    return f"spec.resourcePolicy.containerPolicies[{index}]"


def _check_integers(vpa: VerticalPodAutoscaler) -> None:
    """Raise DecodeError for integers that Go's types can't hold."""
    update = vpa.spec.update_policy
    if update is not None:
        path = "spec.updatePolicy"
        _check_integer(f"{path}.minReplicas", update.min_replicas, _MAX_INT32)
        seconds = update.evict_after_oom_seconds
        _check_integer(f"{path}.evictAfterOOMSeconds", seconds, _MAX_INT32)
    for index, policy in enumerate(container_policies(vpa)):
        _check_policy(path_of_policy(index), policy)
    if vpa.spec.startup_boost is not None:
        _check_boost("spec.startupBoost", vpa.spec.startup_boost)


def _check_policy(path: str, policy: ContainerPolicy) -> None:
    seconds = policy.memory_aggregation_interval_seconds
    _check_integer(f"{path}.memoryAggregationIntervalSeconds", seconds, _MAX_INT32)
    count = policy.memory_aggregation_interval_count
    _check_integer(f"{path}.memoryAggregationIntervalCount", count, _MAX_INT64)
    if policy.startup_boost is not None:
        _check_boost(f"{path}.startupBoost", policy.startup_boost)


def _check_boost(path: str, boost: StartupBoost) -> None:
    if boost.cpu is not None:
        _check_integer(f"{path}.cpu.factor", boost.cpu.factor, _MAX_INT32)
        _check_integer(f"{path}.cpu.durationSeconds", boost.cpu.duration_seconds, _MAX_INT32)


def _check_quantities(raw: bytes) -> None:
    """Raise BadQuantityError for the first bad quantity of the document, if any.

    In the reference, it ends decoding. Values of a wrong type don't, so they are reported only if
    all quantities are good.

    Source: ``Quantity.UnmarshalJSON`` under ``encoding/json``, which returns its error at once.
    """
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return
    spec = document.get("spec") if isinstance(document, dict) else None
    for field, value in _quantities("spec", spec, _QUANTITIES):
        try:
            Quantity.from_json(value)
        except QuantityError as error:
            raise BadQuantityError(field, value, error.problem) from error


def _quantities(path: str, value: Any, shape: _Shape) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each field that has to be a quantity, in document order."""
    if shape is None:
        yield path, value
    elif isinstance(shape, tuple):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _quantities(f"{path}[{index}]", item, shape[0])
    elif isinstance(value, dict):
        for name, member in value.items():
            if name in shape:
                yield from _quantities(f"{path}.{name}", member, shape[name])
            elif _ANY_NAME in shape:
                yield from _quantities(f"{path}[{name}]", member, shape[_ANY_NAME])


def _check_integer(path: str, number: int | None, most: int) -> None:
    if number is not None and not -most - 1 <= number <= most:
        raise DecodeError(f"{path}: {number} is not between {-most - 1} and {most}")


def _written(raw: bytes) -> _WrittenVpa:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        if b"null" not in memoryview(raw).tobytes():
            raise
    # Only after an error, because few objects contain nulls.
    plain = _without_nulls(msgspec.json.decode(raw))
    return msgspec.convert({} if plain is None else plain, _WrittenVpa)


def _without_nulls(value: Any) -> Any:
    """Return the value without null members of objects: Go treats them as missing fields."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
