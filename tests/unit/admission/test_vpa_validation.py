"""Rules of ``admission.vpa_validation`` that the recorded answers do not cover."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from admission import vpa_decoding, vpa_validation
from admission.vpa_decoding import BadQuantityError
from common.api.autoscaling import MOST_POLICIES
from common.errors import DecodeError
from common.features import FeatureGates
from common.quantity import Quantity

TARGET = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
EVICTION_FIELD = "spec.updatePolicy.evictionRequirements"
HIGHER = "TargetHigherThanRequests"


def read(spec: Any) -> Any:
    document = {"metadata": {"name": "my-vpa", "namespace": "default"}, "spec": spec}
    return vpa_decoding.decode(json.dumps(document).encode())


def requirements(*resources: list[str]) -> dict[str, Any]:
    wanted = [{"resources": names, "changeRequirement": HIGHER} for names in resources]
    return TARGET | {"updatePolicy": {"updateMode": "Auto", "evictionRequirements": wanted}}


def problems(spec: Any, old: Any = None, gates: str = "") -> list[tuple[str, str]]:
    verdict = vpa_validation.admit_vpa(
        read(spec), None if old is None else read(old), FeatureGates.parse(gates)
    )
    assert not (verdict.errors and verdict.patches)
    return [(error.field, error.message) for error in verdict.errors]


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        pytest.param([["cpu"], ["memory"]], "", id="one requirement each"),
        pytest.param([["cpu", "memory"]], "", id="both in one requirement"),
        pytest.param([], "", id="no requirement"),
        pytest.param(
            [["cpu"], ["cpu"]],
            "cpu may be in one requirement only, alone or in [cpu, memory]",
            id="two requirements for a resource",
        ),
        pytest.param(
            [["cpu", "memory"], ["memory"]],
            "memory may be in one requirement only, alone or in [cpu, memory]",
            id="a resource alone and in a combination",
        ),
        pytest.param(
            [["memory", "cpu"], ["cpu", "memory"]],
            "cpu and memory may be in one requirement only, alone or in [cpu, memory]",
            id="two combinations of the same resources",
        ),
        pytest.param([["cpu", "cpu"]], "", id="a resource twice in one requirement is accepted"),
        pytest.param(
            [[]], "requirement 0 must name at least one resource: cpu, memory or both", id="empty"
        ),
        pytest.param(
            [["cpu"], ["disk"]], "requirement 1 may name cpu and memory only", id="unknown name"
        ),
    ],
)
def test_kep_4831_eviction_requirements_must_not_contradict_each_other(
    resources: list[list[str]], sentence: str
) -> None:
    found = problems(requirements(*resources))
    if not sentence:
        assert found == []
        return
    ((field, message),) = found
    assert field == EVICTION_FIELD
    assert message.startswith("Invalid value: ")
    assert message.endswith(sentence)


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        pytest.param("text", "$.spec", id="a string for the spec"),
        pytest.param({"targetRef": []}, "$.spec.targetRef", id="a list for a map"),
        pytest.param({"updatePolicy": {"updateMode": 3}}, "updateMode", id="a number for a string"),
        pytest.param(
            {"updatePolicy": {"minReplicas": "2"}}, "minReplicas", id="a string for a number"
        ),
        pytest.param(
            {"updatePolicy": {"minReplicas": True}}, "minReplicas", id="a Boolean for a number"
        ),
        pytest.param({"recommenders": {"name": "mine"}}, "recommenders", id="a map for a list"),
        pytest.param(
            {"updatePolicy": {"minReplicas": 2**31}},
            "spec.updatePolicy.minReplicas: 2147483648 is not between -2147483648 and 2147483647",
            id="more replicas than Go's int32 holds",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Factor", "factor": 10**40}}},
            "spec.startupBoost.cpu.factor: 1",
            id="a factor of forty digits",
        ),
        pytest.param(
            {"resourcePolicy": {"containerPolicies": [{"memoryAggregationIntervalCount": 2**63}]}},
            "containerPolicies[0].memoryAggregationIntervalCount: 9",
            id="a number beyond int64",
        ),
    ],
)
def test_types_are_strict_and_the_error_names_the_field(spec: Any, place: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(spec)
    assert place in str(caught.value)


def policies(*given: dict[str, Any]) -> dict[str, Any]:
    return {"resourcePolicy": {"containerPolicies": list(given)}}


FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX = "unable to parse quantity's suffix"
FIRST = "spec.resourcePolicy.containerPolicies[0]"


@pytest.mark.parametrize(
    ("spec", "sentence", "warning"),
    [
        pytest.param(
            policies({"maxAllowed": {"cpu": "much"}}),
            FORMAT,
            f'{FIRST}.maxAllowed[cpu]: "much" is not a quantity',
            id="an invalid quantity",
        ),
        pytest.param(
            policies({"maxAllowed": {"memory": ""}}),
            FORMAT,
            f'{FIRST}.maxAllowed[memory]: "" is not a quantity',
            id="an empty quantity",
        ),
        pytest.param(
            policies({"minAllowed": {"memory": "1Kx"}}),
            FORMAT,
            f'{FIRST}.minAllowed[memory]: "1Kx" is not a quantity',
            id="a letter after a suffix",
        ),
        pytest.param(
            policies({"minAllowed": {"memory": "1kk"}}),
            SUFFIX,
            f'{FIRST}.minAllowed[memory]: "1kk" is not a quantity',
            id="an unknown suffix",
        ),
        pytest.param(
            policies({"minAllowed": {"requests": {"cpu": "50m"}}}),
            FORMAT,
            f'{FIRST}.minAllowed[requests]: {{"cpu":"50m"}} is not a quantity',
            id="a map for a quantity",
        ),
        pytest.param(
            policies({"maxAllowed": {"cpu": True}}),
            FORMAT,
            f"{FIRST}.maxAllowed[cpu]: true is not a quantity",
            id="a Boolean for a quantity",
        ),
        pytest.param(
            policies({"maxAllowed": {"cpu": "1e999999999"}}),
            "the quantity is out of range",
            f'{FIRST}.maxAllowed[cpu]: "1e999999999" is not a quantity',
            id="an excessive quantity",
        ),
        pytest.param(
            policies({"oomMinBumpUp": "x"}),
            FORMAT,
            f'{FIRST}.oomMinBumpUp: "x" is not a quantity',
            id="oomMinBumpUp",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Quantity", "quantity": "x"}}},
            FORMAT,
            'spec.startupBoost.cpu.quantity: "x" is not a quantity',
            id="the boost of a VPA",
        ),
        pytest.param(
            policies({"startupBoost": {"cpu": {"quantity": "x"}}}),
            FORMAT,
            f'{FIRST}.startupBoost.cpu.quantity: "x" is not a quantity',
            id="the boost of a container",
        ),
        pytest.param(
            policies({"oomBumpUpRatio": "x", "minAllowed": {"cpu": "1kk"}}),
            FORMAT,
            f'{FIRST}.oomBumpUpRatio: "x" is not a quantity',
            id="the first of two errors",
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": 3}, **policies({}, {"minAllowed": {"cpu": "x"}})},
            FORMAT,
            'spec.resourcePolicy.containerPolicies[1].minAllowed[cpu]: "x" is not a quantity',
            id="before a value of a wrong type",
        ),
        pytest.param(
            {"updatePolicy": {"minReplicas": 2**31}, **policies({"minAllowed": {"cpu": "x"}})},
            FORMAT,
            f'{FIRST}.minAllowed[cpu]: "x" is not a quantity',
            id="before an integer overflow",
        ),
        pytest.param(
            policies({"minAllowed": {"cpu": "x" * 5000}}),
            FORMAT,
            f'{FIRST}.minAllowed[cpu]: "{"x" * 99}... is not a quantity',
            id="a long value is cut in the warning",
        ),
    ],
)
def test_x113_an_invalid_quantity_is_denied_with_the_reference_s_message(
    spec: Any, sentence: str, warning: str
) -> None:
    with pytest.raises(BadQuantityError) as caught:
        read(spec)
    assert (str(caught.value), caught.value.warning) == (sentence, warning)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty body"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"text"', id="a string"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"{", id="a truncated object"),
        pytest.param(b'{"metadata": 7}', id="a number for the metadata"),
        pytest.param(b"\xff\xfe", id="not JSON"),
        pytest.param(b'{"metadata": {"name": "\xff"}}', id="a name that is not UTF-8"),
        pytest.param(b"[" * 100_000, id="endless lists"),
    ],
)
def test_invalid_objects(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        vpa_decoding.decode(raw)


def test_an_object_that_is_nested_too_deeply_is_refused_with_a_message() -> None:
    raw = b'{"spec":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001
    with pytest.raises(DecodeError, match="the object is nested too deeply"):
        vpa_decoding.decode(raw)


def test_unknown_fields_and_nulls_are_accepted() -> None:
    spec = TARGET | {
        "novelty": {"deep": [1]},
        "updatePolicy": None,
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": None}]},
    }
    verdict = vpa_validation.admit_vpa(read(spec), None, FeatureGates())
    assert verdict.errors == ()
    assert [operation.path for operation in verdict.patches] == ["/spec/updatePolicy"]


def test_a_status_in_the_request_is_ignored() -> None:
    raw = json.dumps({"spec": TARGET, "status": {"recommendation": 7}}).encode()
    assert vpa_validation.admit_vpa(vpa_decoding.decode(raw), None, FeatureGates()).errors == ()


def test_null_is_an_object_without_fields() -> None:
    assert vpa_decoding.decode(b"null").spec.target_ref is None


def test_a_hundred_errors_and_warnings_are_listed() -> None:
    policy = {"controlledResources": ["gpu"]}
    many = TARGET | {
        "updatePolicy": {"updateMode": "Auto"},
        "resourcePolicy": {"containerPolicies": [policy] * MOST_POLICIES},
    }
    verdict = vpa_validation.admit_vpa(read(many), read(many), FeatureGates())
    assert len(verdict.errors) == 100
    assert len(verdict.warnings) == 100


def test_an_object_above_the_size_limit_is_refused() -> None:
    vpa_decoding.check_size(b" " * vpa_decoding.LARGEST_VPA)
    with pytest.raises(DecodeError, match="the object has 1048577 bytes"):
        vpa_decoding.check_size(b" " * (vpa_decoding.LARGEST_VPA + 1))


def with_policies(*policies: dict[str, Any]) -> dict[str, Any]:
    return TARGET | {"resourcePolicy": {"containerPolicies": list(policies)}}


QUANTITY_TEXTS = st.from_regex(
    r"[ ]?[+-]?[0-9]{0,19}(\.[0-9]{0,3})?[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,3}"
)
QUANTITIES = st.one_of(
    QUANTITY_TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False)
)


@given(QUANTITIES)
@example("")
@example("+")
@example("1e199")
@example("1e201")
@example("9" * 100 + "." + "9" * 100 + "Ki")
@example(1e15)
@example(-1e300)
def test_the_fast_check_of_a_quantity_agrees_with_the_parser(value: str | float) -> None:
    spec = with_policies({"containerName": "app", "minAllowed": {"gpu": value}})
    if _is_quantity(value):
        read(spec)
    else:
        with pytest.raises(BadQuantityError):
            read(spec)


def _is_quantity(value: str | float) -> bool:
    try:
        Quantity.from_json(value)
    except DecodeError:
        return False
    return True


ORDINARY = st.from_regex(r"[0-9]{1,16}([mk]|[KMG]i)?", fullmatch=True)


@given(st.sampled_from(["cpu", "memory", "gpu"]), ORDINARY, ORDINARY)
@example("memory", "999999999999999Gi", "999999999999998Gi")
@example("cpu", "2", "1999m")
@example("cpu", "2000m", "2")
def test_the_fast_check_of_bounds_agrees_with_the_rules(name: str, low: str, high: str) -> None:
    bounds = {"minAllowed": {name: low}, "maxAllowed": {name: high}}
    lowest, highest = Quantity.parse(low), Quantity.parse(high)
    broken = highest < lowest
    if name == "memory":
        broken = broken or lowest.nanos % 10**9 != 0 or highest.nanos % 10**9 != 0
    assert bool(problems(with_policies({"containerName": "app"} | bounds))) == broken


def test_a_policy_without_a_number_does_not_hide_the_next() -> None:
    wrong = {"containerName": "b", "memoryAggregationIntervalCount": 2**63}
    with pytest.raises(DecodeError, match=r"containerPolicies\[2\]\.memoryAggregationInterval"):
        read(with_policies({}, {"containerName": "a"}, wrong))
