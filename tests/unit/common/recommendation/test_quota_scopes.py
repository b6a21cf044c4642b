"""Tests of the scopes of ResourceQuotas."""

from typing import Any

import pytest

from common.api.core import ResourceQuotaSpec
from common.recommendation.quota_scopes import ScopeFacts, is_counted

POD = ScopeFacts(is_best_effort=False, is_terminating=False, priority_class="high")
JOB = ScopeFacts(is_best_effort=False, is_terminating=True, priority_class="")
BEST_EFFORT = ScopeFacts(is_best_effort=True, is_terminating=False, priority_class="")
UNKNOWN = ScopeFacts()


@pytest.mark.parametrize(
    ("scopes", "pod", "counted"),
    [
        pytest.param((), POD, True, id="a quota without scopes counts every pod"),
        pytest.param((), UNKNOWN, True, id="without scopes no fact is needed"),
        pytest.param(
            ("BestEffort",), BEST_EFFORT, True, id="BestEffort counts a pod of that class"
        ),
        pytest.param(("BestEffort",), POD, False, id="BestEffort leaves out a pod with requests"),
        pytest.param(("NotBestEffort",), POD, True, id="NotBestEffort counts a pod with requests"),
        pytest.param(
            ("NotBestEffort",), BEST_EFFORT, False, id="NotBestEffort leaves out a pod without"
        ),
        pytest.param(("Terminating",), JOB, True, id="Terminating counts a pod with a deadline"),
        pytest.param(("Terminating",), POD, False, id="Terminating leaves out a pod without one"),
        pytest.param(("NotTerminating",), POD, True, id="NotTerminating counts a pod without one"),
        pytest.param(
            ("NotTerminating",), JOB, False, id="NotTerminating leaves out a pod with a deadline"
        ),
        pytest.param(("PriorityClass",), POD, True, id="PriorityClass counts a pod with any class"),
        pytest.param(("PriorityClass",), JOB, False, id="PriorityClass leaves out a pod without"),
        pytest.param(
            ("NotBestEffort", "Terminating"), POD, False, id="a pod must be in all scopes"
        ),
        pytest.param(("NotBestEffort", "Terminating"), JOB, True, id="a pod is in both scopes"),
        pytest.param(("Terminating",), UNKNOWN, None, id="an unknown deadline decides nothing"),
        pytest.param(("NotBestEffort",), UNKNOWN, None, id="an unknown class decides nothing"),
        pytest.param(("PriorityClass",), UNKNOWN, None, id="an unknown priority decides nothing"),
        pytest.param(
            ("CrossNamespacePodAffinity",), POD, None, id="an affinity to other namespaces"
        ),
        pytest.param(
            ("CrossNamespacePodAffinity", "Terminating"),
            POD,
            False,
            id="one scope that certainly leaves it out is enough",
        ),
        pytest.param(("VolumeAttributesClass",), POD, False, id="a scope of volume claims"),
        pytest.param(("OfTheFuture",), POD, None, id="an unknown scope decides nothing"),
    ],
)
def test_scopes_decide_whether_a_pod_counts(
    scopes: tuple[str, ...], pod: ScopeFacts, *, counted: bool | None
) -> None:
    assert is_counted(ResourceQuotaSpec(scopes=scopes or None), pod) is counted


def expression(scope: str, operator: str, *values: str) -> dict[str, Any]:
    return {"scopeName": scope, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("expressions", "pod", "counted"),
    [
        pytest.param([], POD, True, id="no expression counts every pod"),
        pytest.param(
            [expression("PriorityClass", "In", "low", "high")], POD, True, id="In: listed"
        ),
        pytest.param([expression("PriorityClass", "In", "low")], POD, False, id="In: not listed"),
        pytest.param([expression("PriorityClass", "In", "")], JOB, False, id="In: no class"),
        pytest.param([expression("PriorityClass", "NotIn", "low")], POD, True, id="NotIn: other"),
        pytest.param(
            [expression("PriorityClass", "NotIn", "high")], POD, False, id="NotIn: listed"
        ),
        pytest.param([expression("PriorityClass", "NotIn", "high")], JOB, True, id="NotIn: none"),
        pytest.param([expression("PriorityClass", "Exists")], POD, True, id="Exists: any"),
        pytest.param([expression("PriorityClass", "DoesNotExist")], JOB, True, id="absent: none"),
        pytest.param([expression("PriorityClass", "DoesNotExist")], POD, False, id="absent: one"),
        pytest.param([expression("PriorityClass", "Like", "high")], POD, None, id="new operator"),
        pytest.param([expression("NotBestEffort", "Exists")], POD, True, id="another scope"),
        pytest.param([expression("Terminating", "In", "x")], POD, None, id="an operator it lacks"),
        pytest.param(
            [expression("PriorityClass", "Exists"), expression("Terminating", "Exists")],
            POD,
            False,
            id="all expressions must hold",
        ),
        pytest.param(["PriorityClass"], POD, None, id="malformed expression"),
        pytest.param({"scopeName": "PriorityClass"}, POD, None, id="malformed list"),
        pytest.param(
            [{"scopeName": "PriorityClass", "operator": "In", "values": "high"}],
            POD,
            None,
            id="malformed values",
        ),
    ],
)
def test_a_scope_selector_decides_whether_a_pod_counts(
    expressions: Any, pod: ScopeFacts, *, counted: bool | None
) -> None:
    quota = ResourceQuotaSpec(scope_selector={"matchExpressions": expressions})

    assert is_counted(quota, pod) is counted
