"""Resize patches: operations, restarts and annotations; updater.md 10.6, D21, D22, D32."""

import pytest

from builders import container, pod
from common.api.core import (
    Container,
    ContainerResizePolicy,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from common.recommendation.container_resources import WantedResources
from common.recommendation.processing import ContainerAmounts
from common.resources import parse_quantities
from updater.decision import Reason
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.resize.resize_plan import (
    annotation_operations,
    containers_to_patch,
    is_marked,
    plan_resize,
    unfinished_restarts,
)


def amounts(name: str, lower: str, target: str, upper: str) -> ContainerAmounts:
    return ContainerAmounts(
        name=name,
        target=parse_quantities({"cpu": target}),
        lower_bound=parse_quantities({"cpu": lower}),
        upper_bound=parse_quantities({"cpu": upper}),
    )


RECOMMENDED = {
    "inside": amounts("inside", "50m", "150m", "200m"),
    "outside": amounts("outside", "150m", "200m", "300m"),
    "killed": amounts("killed", "50m", "150m", "200m"),
}
PRESENT = {name: parse_quantities({"cpu": "100m"}) for name in RECOMMENDED}


@pytest.mark.parametrize(
    ("verdict", "ooms", "want"),
    [
        (Reason.OUTSIDE_RANGE, (), {"outside"}),
        (Reason.OUTSIDE_RANGE, ("killed",), {"outside", "killed"}),
        (Reason.OOMED_QUICKLY, ("killed",), {"outside", "killed"}),
        (Reason.DRIFTED, (), {"inside", "outside", "killed"}),
    ],
)
def test_a_resize_covers_the_containers_that_caused_it(
    verdict: Reason, ooms: tuple[str, ...], want: set[str]
) -> None:
    kills = [ContainerOomKill(name, None) for name in ooms]
    chosen = containers_to_patch(verdict, RECOMMENDED, requests=PRESENT, ooms=kills)
    assert chosen == want


def wanted(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None
) -> WantedResources:
    return WantedResources(requests=parse_quantities(requests), limits=parse_quantities(limits))


def test_a_container_whose_spec_has_the_target_is_left_out() -> None:
    given = pod(
        containers=(
            container("same", requests={"cpu": "0.1"}),
            container("other", requests={"cpu": "100m"}),
        )
    )
    want = (wanted({"cpu": "100m"}), wanted({"cpu": "200m"}))
    plan = plan_resize(given, want, {"same", "other"}, containers={})
    assert plan.changes == {("other", "cpu")}
    assert [each.path for each in plan.operations] == ["/spec/containers/1/resources/requests/cpu"]


def test_a_container_that_was_not_chosen_is_left_out() -> None:
    given = pod(containers=(container("app", requests={"cpu": "100m"}),))
    assert plan_resize(given, (wanted({"cpu": "200m"}),), (), containers={}).operations == ()


def test_missing_parents_are_added_first_and_names_are_escaped() -> None:
    given = pod(containers=(Container(name="app", resources=ResourceRequirements()),))
    want = (wanted({"x.io/gpu": "1", "cpu": "1"}, {"cpu": "2"}),)
    plan = plan_resize(given, want, {"app"}, containers={})
    at = "/spec/containers/0/resources"
    assert [(each.path, each.value) for each in plan.operations] == [
        (at, {}),
        (f"{at}/requests", {}),
        (f"{at}/requests/cpu", "1"),
        (f"{at}/requests/x.io~1gpu", "1"),
        (f"{at}/limits", {}),
        (f"{at}/limits/cpu", "2"),
    ]


def restarting(resource: str, **status: object) -> Pod:
    """Return a pod with requests of 200m and 200Mi that restarts if ``resource`` changes."""
    policy = ContainerResizePolicy(resource_name=resource, restart_policy="RestartContainer")
    app = Container(
        name="app",
        resources=ResourceRequirements(requests={"cpu": "200m", "memory": "200Mi"}),
        resize_policy=(policy,),
    )
    statuses = (ContainerStatus(name="app", **status),) if status else None  # type: ignore[arg-type] # field names as keywords
    return Pod(
        metadata=pod().metadata,
        spec=PodSpec(containers=(app,)),
        status=PodStatus(phase="Running", container_statuses=statuses),
    )


@pytest.mark.parametrize(("resource", "restarts"), [("cpu", True), ("memory", False)])
def test_only_a_changed_resource_restarts_its_container(resource: str, *, restarts: bool) -> None:
    """D22."""
    want = (wanted({"cpu": "300m", "memory": "200Mi"}),)
    assert plan_resize(restarting(resource), want, {"app"}, containers={}).restarts is restarts


def actual(cpu: str) -> ResourceRequirements:
    return ResourceRequirements(requests={"cpu": cpu, "memory": "200Mi"})


UNFINISHED = {
    "resizing, cpu differs": (restarting("cpu", resources=actual("100m")), True, True),
    "resizing, cpu is applied": (restarting("cpu", resources=actual("200m")), True, False),
    "resizing, memory is applied": (restarting("memory", resources=actual("100m")), True, False),
    "resizing, nothing reported": (restarting("cpu"), True, True),
    "not resizing, nothing reported": (restarting("cpu"), False, False),
    "not resizing, reported cpu is rounded": (
        restarting("cpu", resources=actual("199m")),
        False,
        False,
    ),
    "not yet resizing, allocated differs": (
        restarting("cpu", allocated_resources={"cpu": "100m"}),
        False,
        True,
    ),
    "not resizing, allocated": (
        restarting("cpu", allocated_resources={"cpu": "200m"}),
        False,
        False,
    ),
    "not yet resizing, no requests before": (
        restarting("cpu", resources=ResourceRequirements()),
        False,
        True,
    ),
    "not yet resizing, only memory before": (
        restarting("cpu", resources=ResourceRequirements(requests={"memory": "200Mi"})),
        False,
        True,
    ),
    "no restart policy": (pod(), True, False),
}


@pytest.mark.parametrize(("given", "resizing", "want"), UNFINISHED.values(), ids=UNFINISHED)
def test_unfinished_restarts(given: Pod, *, resizing: bool, want: bool) -> None:
    """D32."""
    assert unfinished_restarts(given, resizing=resizing) is want


def test_a_missing_annotations_map_is_added() -> None:
    made, marked = annotation_operations(pod())
    assert (made.path, made.value) == ("/metadata/annotations", {})
    assert (marked.path, marked.value) == ("/metadata/annotations/vpaInPlaceUpdated", "true")
    assert is_marked(pod(annotations={"vpaInPlaceUpdated": "true"}))
    assert not is_marked(pod(annotations={"other": "true"}))
