"""Reading a VPA as people wrote it, before the API server has applied the schema.

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
from common.api.base import QuantityJson, Wire
from common.api.meta import ObjectMeta
from common.errors import DecodeError
from common.quantity import Quantity, QuantityError

LARGEST_VPA = 1024 * 1024  # bytes; etcd stores objects of at most one and a half times this

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
    """A field of a VPA should be a quantity and is none.

    The text is the reference's sentence, which names neither field nor value; ``warning`` names
    both (X113).
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(problem)
        shown = quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
        if len(shown) > _LONGEST_VALUE:
            shown = f"{shown[:_LONGEST_VALUE]}..."
        self.warning = brief(f"{field}: {shown} is not a quantity")


class _WrittenVpa(Wire, frozen=True, kw_only=True):
    """A VPA as people write it; the API server drops a status, whatever it is."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VpaSpec = VpaSpec()


_decoder = msgspec.json.Decoder(_WrittenVpa)


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
        BadQuantityError: a quantity is none; of several, and of other trouble, the first of these.
        DecodeError: with a sentence that names the place.
    """
    try:
        return _decoded(raw)
    except DecodeError:
        bad = _first_bad_quantity(raw)
        if bad is None:
            raise
        raise bad from None


def _decoded(raw: bytes) -> VerticalPodAutoscaler:
    try:
        written = _written(raw)
    except RecursionError as error:
        raise DecodeError("the object is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise DecodeError(str(error)) from error
    vpa = VerticalPodAutoscaler(metadata=written.metadata, spec=written.spec)
    _check_numbers(vpa)
    return vpa


def container_policies(vpa: VerticalPodAutoscaler) -> tuple[ContainerPolicy, ...]:
    """Return the policies of single containers, in order."""
    policy = vpa.spec.resource_policy
    return (policy.container_policies or ()) if policy is not None else ()


def path_of_policy(index: int) -> str:
    """Return where the policy with this index is written."""
    return f"spec.resourcePolicy.containerPolicies[{index}]"


def _check_numbers(vpa: VerticalPodAutoscaler) -> None:
    """Refuse what Go's types don't hold: a quantity that is none, an integer that overflows."""
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
    for field, bounds in (("minAllowed", policy.min_allowed), ("maxAllowed", policy.max_allowed)):
        for name, value in (bounds or {}).items():
            _check_quantity(f"{path}.{field}[{name}]", value)
    _check_quantity(f"{path}.oomBumpUpRatio", policy.oom_bump_up_ratio)
    _check_quantity(f"{path}.oomMinBumpUp", policy.oom_min_bump_up)
    seconds = policy.memory_aggregation_interval_seconds
    _check_integer(f"{path}.memoryAggregationIntervalSeconds", seconds, _MAX_INT32)
    count = policy.memory_aggregation_interval_count
    _check_integer(f"{path}.memoryAggregationIntervalCount", count, _MAX_INT64)
    if policy.startup_boost is not None:
        _check_boost(f"{path}.startupBoost", policy.startup_boost)


def _check_boost(path: str, boost: StartupBoost) -> None:
    if boost.cpu is not None:
        _check_quantity(f"{path}.cpu.quantity", boost.cpu.quantity)
        _check_integer(f"{path}.cpu.factor", boost.cpu.factor, _MAX_INT32)
        _check_integer(f"{path}.cpu.durationSeconds", boost.cpu.duration_seconds, _MAX_INT32)


def _check_quantity(path: str, value: QuantityJson) -> None:
    try:
        Quantity.from_json(value)
    except QuantityError as error:
        raise BadQuantityError(path, value, error.problem) from error


def _first_bad_quantity(raw: bytes) -> BadQuantityError | None:
    """Find the first bad quantity of the document, which ends decoding in the reference.

    Values of a wrong type don't: they are reported only where all quantities are good.

    Source: ``Quantity.UnmarshalJSON`` under ``encoding/json``, which returns its error at once.
    """
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    spec = document.get("spec") if isinstance(document, dict) else None
    for field, value in _quantities("spec", spec, _QUANTITIES):
        try:
            Quantity.from_json(value)
        except QuantityError as error:
            return BadQuantityError(field, value, error.problem)
    return None


def _quantities(path: str, value: Any, shape: _Shape) -> Iterator[tuple[str, Any]]:
    """Yield what should be a quantity, with its path, in the order of the document."""
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
    # To Go, a null is a field that was not written. Few objects have any, and only they pay.
    plain = _without_nulls(msgspec.json.decode(raw))
    return msgspec.convert({} if plain is None else plain, _WrittenVpa)


def _without_nulls(value: Any) -> Any:
    """Drop null members of objects: to Go, a null is a field that was not written."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
