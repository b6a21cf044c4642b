"""Nearly right reviews: hypothesis strategies over the wire types, and random changes of bytes.

The shapes derive from the wire types. So new fields are tested at once with wrong types, nulls,
large numbers and odd quantities.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from hypothesis import strategies as st
from msgspec import inspect

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod

Json: TypeAlias = Any
Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

POD = ("", "pods")
VPA = ("autoscaling.k8s.io", "verticalpodautoscalers")

QUANTITIES = ("0", "1m", "250m", "1", "1.5", "64Mi", "100M", "1e3", "1E", " 1 ", "1.", "+1", 2, 0.5)
ODD_QUANTITIES = (
    *("-1", "1500u", "", ".", "much", "1 Gi", "0x10", "1e400", "1e999999999", "1e-999999999"),
    *("9" * 400, "1\x00", "9223372036854775807", "9223372036854775808Ei", "0." + 300 * "0" + "1"),
    *("NaN", "\uff11", True, None, 1e300, 10**30),
)
# Mostly valid values of some fields, so that the rules behind them are reached.
WORDS: Mapping[str, Sequence[str]] = {
    "updateMode": ("Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace"),
    "mode": ("Auto", "Off"),
    "type": ("Factor", "Quantity"),
    "controlledValues": ("RequestsAndLimits", "RequestsOnly"),
    "changeRequirement": ("TargetHigherThanRequests", "TargetLowerThanRequests"),
    "resourceName": ("cpu", "memory"),
    "name": ("app", "proxy"),
    "containerName": ("app", "*"),
    "kind": ("Deployment", "ReplicaSet"),
    "resources": ("cpu", "memory"),
    "controlledResources": ("cpu", "memory"),
}
RESOURCES = ("cpu", "memory", "cpu", "memory", "example.com/gpu", "CPU", "", "a~b/c")
NUMBERS = (0, 1, -1, 2, 300, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 10**30, 1.5, 1e308, -0.0)

_ODD_TEXTS = ("", "\x00", "\u202e", "\ud800", "x" * 300, "ä", "\U0001f4a9", '"', "\\", "null", "$")
_ODD: tuple[Json, ...] = (
    *(None, True, False, [], {}, [None], [[]], [{}], {"": None}, {"a": {"b": {"c": [1]}}}),
    *NUMBERS,
    *_ODD_TEXTS,
)
_RARELY = st.integers(0, 31).map(lambda dice: dice == 13)  # not a number that hypothesis prefers
_DEPTHS = (1, 20, 950, 5000)
_KEYS = ("request", "object", "oldObject", "spec", "metadata", "uid", "containers", "updatePolicy")


@dataclass(frozen=True, slots=True)
class Posted:
    """A body; ``intact`` if its bytes were not changed."""

    body: bytes
    intact: bool


@st.composite
def posted(draw: Draw, count: int) -> list[Posted]:
    """Return a review of a pod or a VPA, intact and with broken bytes, and random bytes."""
    review = draw(reviews(draw(st.sampled_from((POD, POD, VPA)))))
    body = json.dumps(review, separators=(",", ":")).encode()
    rng = Random(draw(st.integers(0, 2**64 - 1)))
    others = [Posted(broken(body, rng), intact=False) for _ in range(count - 2)]
    return [Posted(body, intact=True), *others, Posted(draw(st.binary(max_size=64)), intact=False)]


@st.composite
def reviews(draw: Draw, subject: tuple[str, str]) -> Json:
    """Draw an AdmissionReview as JSON data."""
    group, resource = subject
    half_valid = pods() if subject == POD else vpas()
    operation = draw(st.sampled_from(("CREATE", "UPDATE", "UPDATE", "DELETE", "", "CONNECT")))
    request = {
        "uid": "u",
        "resource": {"group": group, "version": "v1", "resource": resource},
        "requestKind": {"group": group, "version": "v1", "kind": "Any"},
        "name": "web",
        "namespace": "default",
        "operation": operation,
        "object": draw(half_valid),
        "oldObject": draw(half_valid) if operation == "UPDATE" else None,
    }
    version = draw(st.sampled_from(("admission.k8s.io/v1", "admission.k8s.io/v1beta1")))
    review = {"apiVersion": version, "kind": "AdmissionReview", "request": request}
    if draw(st.integers(0, 9)) == 7:
        place = draw(
            st.sampled_from((review, request, request["resource"], request["requestKind"]))
        )
        name = draw(st.sampled_from(sorted(place)))
        place[name] = draw(st.sampled_from(_ODD))
    return review


def pods() -> st.SearchStrategy[Json]:
    """Draw nearly right pods with all fields that the product reads."""
    return _PODS


def vpas() -> st.SearchStrategy[Json]:
    """Draw nearly right VPAs with all fields that the product reads."""
    return _VPAS


def broken(body: bytes, rng: Random) -> bytes:
    """Return the body with one change of its bytes."""
    at = rng.randrange(len(body))
    inside = rng.choice([index for index, byte in enumerate(body) if byte == ord("{")]) + 1
    key, value = rng.choice(_KEYS), rng.choice(_ODD)
    match rng.randrange(14):
        case 0:  # cut off
            return body[:at]
        case 1:
            return body + body
        case 2:  # invalid UTF-8
            return body[:at] + b"\xff" + body[at:]
        case 3:  # half a pair of surrogates
            return body[:at] + b"\xed\xa0\x80" + body[at:]
        case 4:
            return body[:at] + bytes((rng.randrange(256),)) + body[at + 1 :]
        case 5:
            return body[:at] + body[at + rng.randrange(1, 20) :]
        case 6:
            return body[:inside] + b'"spec":' + _nested(rng.choice(_DEPTHS)) + b"," + body[inside:]
        case 7:
            return body[:inside] + b'"uid":' + b"7" * rng.choice(_DEPTHS) + b"," + body[inside:]
        case 8:  # a byte order mark
            return b"\xef\xbb\xbf" + body
        case 9:
            return body.decode().encode("utf-16")
    # a duplicate, unknown or misplaced key
    return body[:inside] + f"{json.dumps(key)}:{json.dumps(value)},".encode() + body[inside:]


def _nested(depth: int) -> bytes:
    return b'{"a":[' * depth + b"1" + b"]}" * depth


def _of(name: str, kind: inspect.Type) -> st.SearchStrategy[Json]:
    """Draw values of a field, mostly of its type and sometimes odd."""
    right = _right(name, kind)
    odd = st.sampled_from((*_ODD, *ODD_QUANTITIES) if _is_quantity(kind) else _ODD)
    return _RARELY.flatmap(lambda is_odd: odd if is_odd else right)


def _is_quantity(kind: inspect.Type) -> bool:
    types = kind.types if isinstance(kind, inspect.UnionType) else ()
    return {inspect.StrType, inspect.FloatType} <= set(map(type, types))


def _right(name: str, kind: inspect.Type) -> st.SearchStrategy[Json]:
    match kind:
        case inspect.StructType(fields=fields):
            return _objects(fields)
        case inspect.UnionType() if _is_quantity(kind):
            return st.sampled_from(QUANTITIES)
        case inspect.UnionType(types=types):
            known = [each for each in types if not isinstance(each, inspect.NoneType)]
            return st.one_of([_right(name, each) for each in known])
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return st.lists(_of(name, item), max_size=3)
        case inspect.DictType(value_type=value):
            quantities = _is_quantity(value)
            keys = RESOURCES if quantities else ("app", "vpaUpdates", "a/b")
            return st.dictionaries(st.sampled_from(keys), _of(name, value), max_size=3)
        case inspect.IntType() | inspect.FloatType():
            return st.sampled_from((1, 2, 300))
        case inspect.BoolType():
            return st.booleans()
        case inspect.DateTimeType():
            return st.sampled_from(("2026-01-02T03:04:05Z", "2026-01-02", "0001-01-01T00:00:00Z"))
        case inspect.StrType() if name in WORDS:
            return st.sampled_from(WORDS[name])
    return st.sampled_from(("web", "app", ""))


def _objects(fields: Sequence[inspect.Field]) -> st.SearchStrategy[Json]:
    made = {field.encode_name: _of(field.encode_name, field.type) for field in fields}
    needed = {field.encode_name for field in fields if field.required}
    # Sections are nearly always present, so that the fields below them are reached.
    needed |= made.keys() & {"metadata", "spec", "containers", "resources", "updatePolicy"}
    return st.fixed_dictionaries(
        {name: strategy for name, strategy in made.items() if name in needed},
        optional={name: strategy for name, strategy in made.items() if name not in needed},
    )


_PODS = _right("", inspect.type_info(Pod))
_VPAS = _right("", inspect.type_info(VerticalPodAutoscaler))
