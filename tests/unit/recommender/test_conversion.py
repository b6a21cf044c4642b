"""Objects of the API converted into the model's types: VPAs, policies, pods and usage."""

from datetime import timedelta

import msgspec
import pytest

from builders import container, pod, vpa
from common.api.autoscaling import ContainerPolicy, RecommenderSelector
from common.api.core import Container, ContainerStatus, ResourceRequirements
from common.api.workloads import ResourcesTemplate
from common.quantity import QuantityError
from recommender.model.keys import Requests
from recommender.sources.conversion import (
    container_rule,
    is_ours,
    pod_facts,
    request_sources,
    template_requests,
    written_mode,
)
from recommender.sources.metrics_server import usage_of


@pytest.mark.parametrize(
    ("named", "recommender", "ours"),
    [
        pytest.param(None, "default", True, id="none named, default"),
        pytest.param((), "default", True, id="empty list, default"),
        pytest.param((), "other", False, id="empty list, another"),
        pytest.param(("other",), "other", True, id="named"),
        pytest.param(("other",), "default", False, id="another named"),
        pytest.param(("default",), "default", True, id="default named"),
    ],
)
def test_vpas_of_this_recommender(
    *, named: tuple[str, ...] | None, recommender: str, ours: bool
) -> None:
    selectors = None if named is None else tuple(RecommenderSelector(name=one) for one in named)
    found = vpa()
    found = msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, recommenders=selectors)
    )
    assert is_ours(found, recommender=recommender, ignored=()) is ours
    assert not is_ours(found, recommender=recommender, ignored=("default",))


@pytest.mark.parametrize(
    ("mode", "label"),
    [
        pytest.param("InPlaceOrRecreate", "InPlaceOrRecreate", id="a mode"),
        pytest.param("Auto", "Auto", id="a deprecated mode"),
        pytest.param(None, "", id="no mode"),
        pytest.param("", "", id="an empty mode"),
        pytest.param("Sideways", "Unknown", id="an unknown mode"),
        pytest.param("recreate", "Unknown", id="a mode in lower case"),
    ],
)
def test_the_label_of_an_update_mode(mode: str | None, label: str) -> None:
    assert written_mode(vpa(mode=mode)) == label


def test_request_sources_are_counted() -> None:
    reported = ResourceRequirements(requests={"cpu": "1"})
    found = pod(containers=(container("app"), container("log"), container("proxy")))
    statuses = (
        ContainerStatus(name="app", resources=reported),
        ContainerStatus(name="log"),  # an old kubelet reports no resources
        ContainerStatus(name="gone", resources=reported),
    )
    found = msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, container_statuses=statuses)
    )
    assert request_sources(found) == {
        "Pod.Status.ContainerStatuses": 1,
        "Pod.Spec.Containers": 2,
    }


@pytest.mark.parametrize(
    ("controlled", "want"),
    [
        pytest.param(None, ("cpu", "memory"), id="absent: both"),
        pytest.param((), (), id="empty: nothing"),
        pytest.param(("memory", "gpu"), ("memory",), id="unknown names are dropped"),
    ],
)
def test_controlled_resources(controlled: tuple[str, ...] | None, want: tuple[str, ...]) -> None:
    policy = ContainerPolicy(container_name="*", controlled_resources=controlled)
    assert container_rule(policy, per_vpa_config=False).controlled == want


OVERRIDES = ContainerPolicy(
    container_name="*",
    oom_bump_up_ratio="1.5",
    oom_min_bump_up="10Mi",
    memory_aggregation_interval_seconds=60,
    memory_aggregation_interval_count=2,
)


def test_overrides_need_their_feature_gate() -> None:
    rule = container_rule(OVERRIDES, per_vpa_config=True)
    assert rule.oom_bump_up_ratio == 1.5
    assert rule.oom_min_bump_up == 10 << 20
    assert rule.interval == timedelta(minutes=1)
    assert rule.interval_count == 2
    assert container_rule(OVERRIDES, per_vpa_config=False).interval is None


def test_an_invalid_override_raises_an_error() -> None:
    policy = ContainerPolicy(container_name="*", oom_bump_up_ratio="much")
    with pytest.raises(QuantityError):
        container_rule(policy, per_vpa_config=True)


def test_init_containers_have_no_usage() -> None:
    found = pod()
    spec = msgspec.structs.replace(
        found.spec, init_containers=(Container(name="sidecar", restart_policy="Always"),)
    )
    assert pod_facts(msgspec.structs.replace(found, spec=spec)).containers == ("app",)


@pytest.mark.parametrize(
    ("phase", "active"),
    [("Running", True), ("Unknown", True), ("Succeeded", False), ("Failed", False)],
)
def test_a_finished_pod_is_not_active(*, phase: str, active: bool) -> None:
    assert pod_facts(pod(phase=phase)).active is active


@pytest.mark.parametrize(
    ("usage", "want", "unreadable"),
    [
        pytest.param({"cpu": "1n", "memory": "1"}, {"cpu": 1, "memory": 1}, 0, id="rounded up"),
        pytest.param({"cpu": "1001m"}, {"cpu": 1001}, 0, id="missing memory is no zero, Q8"),
        pytest.param({"memory": "1536500m", "x": "?"}, {"memory": 1537}, 0, id="missing cpu, Q8"),
        pytest.param({"cpu": None, "memory": "1"}, {"memory": 1}, 0, id="null is missing"),
        pytest.param({}, {}, 0, id="empty"),
        pytest.param(None, {}, 0, id="null"),
        pytest.param({"cpu": "1", "memory": "?"}, {"cpu": 1000}, 1, id="unreadable memory"),
        pytest.param({"cpu": "?", "memory": "1"}, {"memory": 1}, 1, id="unreadable cpu"),
        pytest.param({"cpu": {}, "memory": "1"}, {"memory": 1}, 1, id="cpu is an object"),
        pytest.param({"cpu": "1", "memory": []}, {"cpu": 1000}, 1, id="memory is an array"),
        pytest.param({"cpu": "1", "memory": True}, {"cpu": 1000}, 1, id="memory is a Boolean"),
        pytest.param({"cpu": "?", "memory": ""}, {}, 2, id="both unreadable"),
        pytest.param(["1"], {}, 1, id="not an object"),
    ],
)
def test_usage_of(usage: object, want: dict[str, int], unreadable: int) -> None:
    assert usage_of(usage) == (want, unreadable)


TEMPLATES = [
    pytest.param({"requests": {"cpu": "100m", "memory": "1Ki"}}, Requests(100, 1024), id="both"),
    pytest.param({"requests": {"cpu": "100m"}}, Requests(cpu=100), id="no memory"),
    pytest.param({"limits": {"cpu": "2"}}, Requests(cpu=2000), id="a limit alone is the request"),
    pytest.param(
        {"requests": {"cpu": 1}, "limits": {"cpu": "2"}}, Requests(cpu=1000), id="request and limit"
    ),
    pytest.param({"requests": {"cpu": "much"}}, Requests(), id="unreadable"),
    pytest.param({"requests": {"cpu": "-1"}}, Requests(), id="negative"),
    pytest.param({"requests": None}, Requests(), id="null"),
    pytest.param({}, Requests(), id="empty"),
    pytest.param(None, Requests(), id="no resources"),
]


@pytest.mark.parametrize(("resources", "want"), TEMPLATES)
def test_the_requests_in_a_pod_template(resources: object, want: Requests) -> None:
    container = {"name": "app", "image": "app"} | (
        {} if resources is None else {"resources": resources}
    )
    template = msgspec.convert({"spec": {"containers": [container]}}, ResourcesTemplate)
    assert template_requests(template) == {"app": want}


def test_init_containers_of_a_template_may_be_native_sidecars() -> None:
    found = {"name": "proxy", "resources": {"requests": {"cpu": "1"}}}
    template = msgspec.convert({"spec": {"initContainers": [found]}}, ResourcesTemplate)
    assert template_requests(template) == {"proxy": Requests(cpu=1000)}


def test_the_kubelet_s_report_is_the_present_request() -> None:
    small = ResourceRequirements(requests={"cpu": "50m", "memory": "10Mi"})
    found = pod(
        containers=(
            container("app", requests={"cpu": "100m", "memory": "20Mi"}),
            container("other", requests={"cpu": "1"}),
        )
    )
    statuses = (ContainerStatus(name="app", resources=small),)
    found = msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, container_statuses=statuses)
    )
    assert pod_facts(found).requests == (Requests(50, 10 * 2**20), Requests(cpu=1000))
