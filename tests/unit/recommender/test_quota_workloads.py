"""The workloads of VPAs, as ResourceQuotas see them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from common.quantity import QuantityError
from common.recommendation.quota_scopes import ScopeFacts
from common.target.pod_counts import PodCounts
from quota_workloads import ONE, container, pod, vpa, workload
from recommender.estimate.quota_bounds import QuotaWorkload
from recommender.estimate.quota_sharing import Claim
from recommender.sources.cached_pod import CachedPod, CachedPodWithSidecars

Json = dict[str, Any]


def claims(found: QuotaWorkload | None) -> Mapping[str, Claim]:
    assert found is not None
    return found.claims


FIXED = {"containerName": "log", "mode": "Off"}


@pytest.mark.parametrize(
    ("found", "claim"),
    [
        pytest.param(
            workload(pod()), Claim(least=10, need=300, weight=300), id="the uncapped target"
        ),
        pytest.param(
            workload(pod(), counts=PodCounts(wanted=2, surge=1)),
            Claim(least=30, need=900, weight=900),
            id="times the pods of a rollout",
        ),
        pytest.param(
            workload(pod(), of=vpa({"containerName": "*", "maxAllowed": {"cpu": "200m"}}, app="1")),
            Claim(least=10, need=200, weight=1000),
            id="maxAllowed bounds the need, and not the weight",
        ),
        pytest.param(
            workload(pod(), of=vpa(app="3")),
            Claim(least=10, need=2000, weight=3000),
            id="so does the maximum of the flags",
        ),
        pytest.param(
            workload(pod(), of=vpa({"containerName": "*", "minAllowed": {"cpu": "50m"}}, app="1")),
            Claim(least=50, need=1000, weight=1000),
            id="minAllowed is the least",
        ),
        pytest.param(
            workload(pod(), of=vpa()),
            Claim(least=10, need=100, weight=100),
            id="before the first recommendation the present request",
        ),
        pytest.param(
            workload(pod(container(), container("log", "40m")), of=vpa(FIXED, app="300m")),
            Claim(least=50, need=340, fixed=40, weight=300),
            id="a container with mode Off keeps its request",
        ),
        pytest.param(
            workload(pod(overhead={"cpu": "5m"})),
            Claim(least=15, need=305, fixed=5, weight=300),
            id="overhead of the runtime class",
        ),
        pytest.param(
            workload(pod(initContainers=[container("first", "500m")])),
            Claim(least=500, need=500, weight=300),
            id="an init container that needs more",
        ),
        pytest.param(
            workload(template={"containers": [container()]}),
            Claim(least=10, need=300, weight=300),
            id="without pods the template",
        ),
    ],
)
def test_the_claim_on_requests_of_cpu(found: QuotaWorkload | None, claim: Claim) -> None:
    assert claims(found)["requests.cpu"] == claim


@pytest.mark.parametrize(
    ("found", "need"),
    [
        pytest.param(workload(pod(container(limits={"cpu": "200m"}))), 600, id="the ratio is kept"),
        pytest.param(
            workload(
                pod(container(limits={"cpu": "200m"})),
                template={"containers": [container(limits={"cpu": "400m"})]},
            ),
            1200,
            id="the ratio of the template counts",
        ),
    ],
)
def test_the_claim_on_limits_follows_the_requests(found: QuotaWorkload | None, need: int) -> None:
    assert claims(found)["limits.cpu"].need == need


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(workload(pod()), id="there is no limit"),
        pytest.param(
            workload(
                pod(container(limits={"cpu": "200m"})),
                of=vpa({"containerName": "*", "controlledValues": "RequestsOnly"}, app="300m"),
            ),
            id="RequestsOnly keeps the limit",
        ),
    ],
)
def test_limits_that_follow_no_request_claim_nothing(found: QuotaWorkload | None) -> None:
    assert "limits.cpu" not in claims(found)


def test_a_resource_that_is_not_controlled_claims_nothing() -> None:
    found = claims(workload(pod(), of=vpa({"containerName": "*", "controlledResources": ["cpu"]})))

    assert "requests.cpu" in found
    assert "requests.memory" not in found


@pytest.mark.parametrize(
    ("scales", "kind", "fixed"),
    [
        pytest.param(True, CachedPodWithSidecars, 0, id="with the gate a native sidecar is scaled"),
        pytest.param(False, CachedPod, 40, id="without it the sidecar keeps its request"),
    ],
)
@pytest.mark.parametrize("has_pods", [pytest.param(True, id="pod"), pytest.param(False, id="none")])
def test_native_sidecars(
    kind: type[CachedPod], fixed: int, *, scales: bool, has_pods: bool
) -> None:
    sidecar = container("proxy", "40m") | {"restartPolicy": "Always"}
    spec = {"containers": [container()], "initContainers": [sidecar]}
    pods = [pod(kind=kind, initContainers=[sidecar])] if has_pods else []

    found = workload(*pods, template=spec, scales_sidecars=scales)

    assert claims(found)["requests.cpu"].fixed == fixed


def test_without_pod_and_template_no_rollout_is_foreseeable() -> None:
    assert workload() is None


NONE = PodCounts(wanted=0)
TEMPLATE = {"containers": [container()]}


@pytest.mark.parametrize(
    ("found", "number"),
    [
        pytest.param(workload(pod(), counts=PodCounts(wanted=2, surge=1)), 3, id="a rollout"),
        pytest.param(
            workload(pod(), pod(), pod(phase="Failed"), counts=None),
            2,
            id="without a number of its controller the present pods",
        ),
        pytest.param(workload(pod(), pod()), 2, id="a CronJob whose runs overlap"),
        pytest.param(workload(template=TEMPLATE), 1, id="a CronJob between two runs"),
        pytest.param(workload(pod(), pod(deleted=True)), 1, id="not those that are being deleted"),
        pytest.param(
            workload(counts=NONE, template=TEMPLATE), 1, id="one of those that are scaled to zero"
        ),
        pytest.param(
            workload(pod(phase="Succeeded"), counts=None, template=TEMPLATE),
            1,
            id="one of those whose pods have ended",
        ),
    ],
)
def test_the_pods_of_a_rollout(found: QuotaWorkload | None, number: int) -> None:
    assert found is not None
    assert found.pods == number


@pytest.mark.parametrize(
    ("pods", "counts", "used"),
    [
        pytest.param([pod()], ONE, 100, id="a running pod"),
        pytest.param([pod(), pod(phase="Succeeded")], ONE, 100, id="a pod that has ended"),
        pytest.param(
            [pod()],
            PodCounts(wanted=3, existing=3),
            102,
            id="a pod that isn't cached uses the published target of 1m",
        ),
        pytest.param(
            [pod(container(cpu="10m")), pod(), pod()],
            PodCounts(wanted=4, existing=4),
            211,
            id="whatever the others use",
        ),
        pytest.param(
            [pod(), pod(deleted=True)],
            PodCounts(wanted=2, existing=2),
            201,
            id="a pod that is being deleted still counts, and its successor too",
        ),
        pytest.param(
            [pod(), pod(deleted=True)],
            PodCounts(wanted=2, existing=2, counts_deleted=True),
            200,
            id="in a StatefulSet its successor is created after it has gone",
        ),
        pytest.param(
            [pod(), pod(deleted=True)],
            PodCounts(wanted=3, existing=3, counts_deleted=True),
            201,
            id="a third pod of it is Pending",
        ),
        pytest.param([pod(), pod(), pod()], ONE, 300, id="more pods than the controller counts"),
        pytest.param([pod(), pod()], None, 200, id="a controller without a number"),
        pytest.param([pod(overhead={"cpu": "5m"})], ONE, 105, id="overhead"),
    ],
)
def test_the_present_use(pods: Sequence[CachedPod], counts: PodCounts | None, used: int) -> None:
    found = workload(*pods, counts=counts)

    assert found is not None
    assert sum(each.count * each.used["requests.cpu"].milli for each in found.uses) == used


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        pytest.param(
            workload(pod(priorityClassName="high", activeDeadlineSeconds=60)),
            ScopeFacts(is_best_effort=False, is_terminating=True, priority_class="high"),
            id="class and deadline of the pod",
        ),
        pytest.param(
            workload(pod({"name": "app"})),
            ScopeFacts(is_best_effort=False, is_terminating=False, priority_class=""),
            id="a VPA gives a pod requests",
        ),
        pytest.param(
            workload(pod({"name": "app"}), of=vpa({"containerName": "*", "mode": "Off"})),
            ScopeFacts(is_best_effort=True, is_terminating=False, priority_class=""),
            id="unless it scales none of its containers",
        ),
        pytest.param(
            workload(
                template={
                    "containers": [container()],
                    "priorityClassName": "low",
                    "activeDeadlineSeconds": 0,
                }
            ),
            ScopeFacts(is_best_effort=False, is_terminating=True, priority_class="low"),
            id="class and deadline of the template",
        ),
    ],
)
def test_the_scopes_of_pods_to_come(found: QuotaWorkload | None, facts: ScopeFacts) -> None:
    assert found is not None
    assert found.facts == facts


def test_a_pod_without_requests_counts_as_best_effort_now() -> None:
    found = workload(pod({"name": "app"}))

    assert found is not None
    assert [each.facts.is_best_effort for each in found.uses if each.count] == [True]


@pytest.mark.parametrize(
    ("found", "competes"),
    [
        pytest.param(workload(pod()), True, id="mode Auto"),
        pytest.param(workload(pod(), of=vpa(mode="Initial")), True, id="mode Initial"),
        pytest.param(workload(pod(), of=vpa(mode="Off")), False, id="mode Off"),
        pytest.param(workload(pod(), controlled_by="other"), False, id="another VPA controls them"),
        pytest.param(workload(counts=NONE, template=TEMPLATE), False, id="scaled to zero"),
        pytest.param(
            workload(counts=ONE, template=TEMPLATE), True, id="a CronJob between two runs"
        ),
    ],
)
def test_workloads_without_pods_or_changes_do_not_compete(
    found: QuotaWorkload | None, *, competes: bool
) -> None:
    assert found is not None
    assert found.competes is competes


def test_an_unreadable_amount_is_an_error() -> None:
    with pytest.raises(QuantityError):
        workload(pod(container(cpu="much")))
