"""The rules of rounding stability one by one; ``test_fixed_point`` tests their combination."""

import pytest

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import ContainerPolicy
from common.api.core import ContainerStatus, LimitRangeItem, LimitRangeSpec, Pod, PodStatus
from common.recommendation.actual_resources import actual_requests, containers_of
from common.recommendation.admission_trace import KEPT, record_stages
from common.recommendation.decision_trace import Amount, DecisionTrace
from common.recommendation.processing import process_in_stages
from common.recommendation.rounding_stability import mark_fixed_limits
from common.recommendation.unboosted_pod import before_boost

BOOSTED = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"100m"},"limits":{"memory":"1Gi"}}'}


def test_a18_marks_containers_with_requests_only() -> None:
    marked = mark_fixed_limits(
        containers_of(pod(containers=(container(), container("proxy"), container("log")))),
        vpa(
            policies=(
                ContainerPolicy(container_name="app", controlled_values="RequestsOnly"),
                ContainerPolicy(container_name="log", controlled_values="RequestsAndLimits"),
            )
        ).spec.resource_policy,
    )
    assert [each.name for each in marked if not each.limits_follow] == ["app"]


# With a maximum of 1000: request, limit, result, and True if the request was kept for rounding.
REQUESTS = [
    pytest.param("100", "150", "666", False, id="far from both results, 666 and 662"),
    pytest.param("666", "999", "666", False, id="the result for the limit itself"),
    pytest.param("665", "998", "665", True, id="the result for a limit one byte higher, not 666"),
    pytest.param("664", "997", "665", False, id="below both results, 665 and 665"),
    pytest.param("668", "1002", "666", False, id="above both results, 666 and 666"),
]


@pytest.mark.parametrize(("request_", "limit", "want", "kept"), REQUESTS)
def test_a19_keeps_a_request_that_differs_by_rounding(
    request_: str, limit: str, want: str, *, kept: bool
) -> None:
    app = container(requests={"memory": request_}, limits={"memory": limit})
    bounds = LimitRangeSpec(limits=(LimitRangeItem(type="Container", max={"memory": "1000"}),))
    stages = process_in_stages(
        pod(containers=(app,)),
        vpa(recommendations=(recommendation(target={"memory": "9000"}),)),
        (bounds,),
    )
    assert stages is not None
    assert str(stages.processed.containers["app"].target["memory"]) == want
    trace = DecisionTrace()
    record_stages(trace, stages)
    steps = [step for step in trace.of("app") if step.amount is Amount.REQUEST]
    assert (steps[-1].reason == KEPT) is kept


def boosted_pod(annotations: dict[str, str]) -> Pod:
    app = container(
        requests={"cpu": "300m", "memory": "5", "example.com/gpu": "1"}, limits={"cpu": "1"}
    )
    given = pod(containers=(app, container("log", requests={"cpu": "7m"})), annotations=annotations)
    status = PodStatus(container_statuses=(ContainerStatus(name="app", resources=app.resources),))
    return type(given)(metadata=given.metadata, spec=given.spec, status=status)


def test_a21_restores_cpu_and_memory_despite_the_status() -> None:
    bare = before_boost(boosted_pod(BOOSTED))
    app, log = containers_of(bare)
    assert {name: str(value) for name, value in app.requests.items()} == {
        "cpu": "100m",
        "example.com/gpu": "1",
    }
    assert {name: str(value) for name, value in app.limits.items()} == {"memory": "1Gi"}
    assert actual_requests(bare, "log") == log.requests
    assert str(log.requests["cpu"]) == "7m"


@pytest.mark.parametrize(
    ("annotations", "names"),
    [
        pytest.param({}, None, id="no boost"),
        pytest.param({"vpaCpuStartupBoost/app": "what?"}, None, id="unreadable"),
        pytest.param(
            {"vpaCpuStartupBoost/gone": BOOSTED["vpaCpuStartupBoost/app"]},
            (),
            id="of a container that is gone",
        ),
        pytest.param(BOOSTED, ("log",), id="of another container"),
    ],
)
def test_a21_does_not_change_other_pods(
    annotations: dict[str, str], names: tuple[str, ...] | None
) -> None:
    given = boosted_pod(annotations)
    assert before_boost(given, names) == given


def test_a21_reads_no_annotation_of_a_container_that_the_pod_does_not_have() -> None:
    """Their number is unbounded, and parsing one takes time."""
    value = BOOSTED["vpaCpuStartupBoost/app"]
    given = boosted_pod({f"vpaCpuStartupBoost/gone-{number}": value for number in range(3)})
    assert before_boost(given) is given
