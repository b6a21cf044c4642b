"""Every rule and warning for VPAs (admission.md 8), and the page that documents them."""

import json

import pytest

from admission import vpa_decoding, vpa_validation
from admission.field_errors import FieldError, undecodable
from common.errors import DecodeError
from common.features import FeatureGates
from golden_data import rows
from validation_page import is_warning, rules, warnings
from vpa_gate_rules import GATE_RULES
from vpa_rules import AUTO, CONTAINER, RULES, Case, read, spec

CASES = [*RULES, *GATE_RULES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rules_and_warnings(case: Case) -> None:
    verdict = case.verdict()
    found = [(error.type, error.field, error.message) for error in verdict.errors]
    assert found == ([case.want] if case.want is not None else [])
    assert verdict.warnings == case.warnings
    defaulted = "updatePolicy" not in case.spec and not verdict.errors
    assert [operation.path for operation in verdict.patches] == ["/spec/updatePolicy"] * defaulted


def test_all_errors_are_listed_in_the_order_of_the_fields() -> None:
    broken = Case(
        id="all",
        spec={
            "updatePolicy": {"updateMode": "Auto", "minReplicas": 0},
            "resourcePolicy": {"containerPolicies": [{"mode": "Z"}]},
            "startupBoost": {},
            "recommenders": [{}, {}],
        },
    )
    verdict = broken.verdict()
    assert [error.field for error in verdict.errors] == [
        "spec.updatePolicy.minReplicas",
        f"{CONTAINER}.containerName",
        f"{CONTAINER}.mode",
        "spec.startupBoost",
        "spec.targetRef",
        "spec.recommenders",
    ]
    assert verdict.warnings == (AUTO,)


# The page


def unreadable() -> FieldError:
    with pytest.raises(DecodeError) as caught:
        read(spec(recommenders=7))
    return undecodable(caught.value)


def test_the_page_lists_exactly_the_rules() -> None:
    errors = [unreadable()]
    errors += [error for case in CASES for error in case.verdict().errors]
    matched = set()
    for error in errors:
        (row,) = (row for row in rules() if row.matches(error.field, error.message))
        matched.add(row)
    assert matched == set(rules())


def test_the_page_lists_exactly_the_warnings() -> None:
    given = {warning for case in CASES for warning in case.verdict().warnings}
    assert len(given) == len(warnings())
    assert all(is_warning(warning) for warning in given)


def test_the_page_lists_the_errors_of_the_recorded_vpas() -> None:
    known = rules()
    checked = 0
    for row in rows("admission_vpas"):
        request = row.input["review"]["request"]
        gates = ",".join(f"{name}={value}" for name, value in row.input["feature_gates"].items())
        try:
            new = vpa_decoding.decode(json.dumps(request["object"]).encode())
            old = vpa_decoding.decode(json.dumps(request["oldObject"]).encode())
        except DecodeError:
            continue
        before = old if request["operation"] == "UPDATE" else None
        for error in vpa_validation.admit_vpa(new, before, FeatureGates.parse(gates)).errors:
            checked += 1
            assert any(rule.matches(error.field, error.message) for rule in known), error
    assert checked > 2000
