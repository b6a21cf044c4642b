"""AEP-8818, in-place updates without eviction: one case per line of its test plan."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import PODS, STATEFUL_SETS, VPAS
from e2e.cluster import OTHER_RECOMMENDER, QUOTAS, Case
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import LARGE, Object, requests, restarts
from sandbox.kubelet.pod_resources import Totals
from workloads import autoscaler

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_FITTING = {"cpu": "300m", "memory": "256Mi"}
# Nodes have 16 CPUs. A step is at least a tenth of what is missing, so these targets have none.
_TOO_MUCH = {"cpu": "400", "memory": "256Mi"}
_MORE = {"cpu": "480", "memory": "256Mi"}
_STATE = "kubelet.sandbox/resize"


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
async def test_basic_in_place_update(case: Case, mode: str) -> None:
    """AEP-8818: a pod is resized in place, without a restart."""
    await case.deploy("web", requests=LARGE)
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}
    await case.create_vpa("web", mode)
    pods = await case.wait_until_applied("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert not case.evictions()

    async def reported() -> bool:  # Events are sent in the background
        return bool(await case.events("InPlaceResizedByVPA"))

    await case.cluster.wait_for(reported, "the resize is reported")


@pytest.mark.concurrent
@pytest.mark.parametrize("state", ["error", "deferred", "unknown-reason", "silent"])
async def test_no_eviction_on_failure(case: Case, state: str) -> None:
    """AEP-8818: no pod is evicted, whatever the state of its resize."""
    before = await _deploy_with_target(case, _FITTING, annotations={_STATE: state})
    await _wait_for_requests(case, _FITTING)
    await case.cluster.wait_for_cycles(UPDATER, 12)  # longer than InPlaceOrRecreate's timeouts
    assert await case.uids("web") == before
    assert not case.evictions()
    assert len(case.resizes()) == len(before), "the same resize is not sent twice"


async def test_gate_off_rejects(case: Case) -> None:
    """AEP-8818: with the gate off no VPA can be set to the mode; existing ones keep it."""
    cluster = case.cluster
    await case.create_vpa("older", "InPlace", recommenders=OTHER_RECOMMENDER)
    path = case.write_vpa(autoscaler("newer", "InPlace"))

    async def refused() -> str:
        words = ("create", "--dry-run=server", "-f", path)
        code, printed = await cluster.kubectl.run(*words, namespace=case.namespace)
        return printed if code else ""

    async with cluster.installation.with_arguments(ADMISSION, "--feature-gates=InPlace=false"):
        sentence = await cluster.wait_for(refused, "a new VPA with the mode is refused")
        assert 'The VerticalPodAutoscaler "newer" is invalid: ' in sentence
        assert "feature gate InPlace" in sentence
        await case.edit(VPAS, "older", updatePolicy={"updateMode": "InPlace", "minReplicas": 1})


@pytest.mark.concurrent
async def test_waits_indefinitely_while_in_progress(case: Case) -> None:
    """AEP-8818: a resize in progress has no timeout, and is not sent again."""
    before = await _deploy_with_target(case, _FITTING, annotations={_STATE: "stuck"})
    await _wait_for_requests(case, _FITTING)
    await _wait_for_condition(case, "PodResizeInProgress")
    await case.cluster.wait_for_cycles(UPDATER, 12)  # longer than --in-place-in-progress-timeout
    assert await case.uids("web") == before
    assert not case.evictions()
    assert len(case.resizes()) == len(before)


@pytest.mark.concurrent
async def test_failed_then_retried_with_success(case: Case) -> None:
    """AEP-8818: a refused resize is retried, and succeeds when the quota has room."""
    cluster = case.cluster
    # The preflight doesn't evaluate quotas with this scope.
    await case.create_quota(scopes=("NotTerminating",), **{"requests.cpu": "250m"})
    before = await _deploy_with_target(case, _FITTING)
    await _wait_for_refusals(case, times=1)
    await cluster.wait_for_cycles(UPDATER, 2)
    assert not case.resizes()
    await case.edit(QUOTAS, "quota", hard={"requests.cpu": "4"})
    pods = await case.wait_until_applied("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert not case.evictions()


@pytest.mark.concurrent
async def test_a_kubelet_that_failed_has_success_with_the_same_resize(case: Case) -> None:
    """AEP-8818, failed then retried with success: after an error the kubelet retries."""
    before = await _deploy_with_target(case, _FITTING, annotations={_STATE: "error"})
    await _wait_for_requests(case, _FITTING)
    await _wait_for_condition(case, "PodResizeInProgress", reason="Error")
    await _repair_kubelet(case)
    pods = await case.wait_until_applied("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert len(case.resizes()) == len(before)
    assert not case.evictions()


@pytest.mark.concurrent
async def test_infeasible_waits(case: Case) -> None:
    """AEP-8818: a pod whose resize is infeasible keeps running unchanged."""
    before = await _deploy_infeasible(case)
    await case.cluster.wait_for_cycles(UPDATER, 6)
    assert await case.uids("web") == before
    assert not case.evictions()
    for pod in await case.pods("web"):
        (status,) = pod["status"]["containerStatuses"]
        assert status["ready"]
        assert status["resources"]["requests"] == _SMALL


@pytest.mark.concurrent
async def test_status_infeasible_is_stored(case: Case) -> None:
    """AEP-8818: an infeasible resize in the status is cached, and the pod is skipped.

    The API server of Kubernetes 1.36 refuses requests beyond the node's capacity, so the
    simulated kubelet reports Infeasible for any resize.
    """
    before = await _deploy_infeasible(case)
    await _wait_until_skipped(case, len(before))
    assert len(case.resizes()) == len(before), "each pod once"


@pytest.mark.concurrent
async def test_node_capacity_is_stored(case: Case) -> None:
    """AEP-8818: a resize refused with the cause NodeCapacity (Kubernetes 1.36) is cached."""
    before = await _deploy_with_target(case, _TOO_MUCH)
    await _wait_until_skipped(case, len(before))
    assert len(case.resizes(code=403)) == len(before), "each pod once"
    assert await case.uids("web") == before
    assert not case.resizes() + case.evictions()


@pytest.mark.concurrent
async def test_no_retry_while_unchanged(case: Case) -> None:
    """AEP-8818: a cached resize isn't retried for the same or a higher target."""
    before = await _deploy_with_target(case, _TOO_MUCH)
    await _wait_until_skipped(case, len(before))
    skipped = await _skip_count(case)
    await case.cluster.wait_for_cycles(UPDATER, 4)
    assert await _skip_count(case) > skipped, "the pod was considered and skipped"
    await case.set_recommendation("web", app=_MORE)
    await case.cluster.wait_for_cycles(UPDATER, 4)
    assert len(case.resizes(code=403)) == len(before)
    assert not case.resizes() + case.evictions()


@pytest.mark.concurrent
async def test_retry_when_lowered_after_node_capacity(case: Case) -> None:
    """AEP-8818: one lower resource is enough for a retry, even if another one is higher."""
    before = await _deploy_with_target(case, _TOO_MUCH)
    await _wait_until_skipped(case, len(before))
    await case.set_recommendation("web", app={"cpu": "300m", "memory": "512Mi"})
    pods = await case.wait_until_applied("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not case.evictions()


@pytest.mark.concurrent
async def test_retry_when_lowered_after_status_infeasible(case: Case) -> None:
    """AEP-8818: a lower target is sent although the status still is Infeasible."""
    before = await _deploy_infeasible(case)
    await _wait_until_skipped(case, len(before))
    await _repair_kubelet(case)
    lowered = {"cpu": "200m", "memory": "256Mi"}
    await case.set_recommendation("web", app=lowered)
    pods = await case.wait_until_applied("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert len(case.resizes()) == 2 * len(before)
    assert not case.evictions()


@pytest.mark.concurrent
async def test_success_clears(case: Case) -> None:
    """AEP-8818: a successful resize clears the cache, and the first target is tried again."""
    before = await _deploy_with_target(case, _TOO_MUCH)
    await _wait_until_skipped(case, len(before))
    await case.set_recommendation("web", app=_FITTING)
    await case.wait_until_applied("web")
    await case.set_recommendation("web", app=_TOO_MUCH)
    await _wait_for_refusals(case, times=2 * len(before))
    assert await case.uids("web") == before
    assert not case.evictions()


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
@pytest.mark.parametrize("state", ["deferred", "infeasible"])
async def test_a_pending_resize_follows_the_recommendation(
    case: Case, state: str, mode: str
) -> None:
    """AEP-8818: a new recommendation replaces a pending resize, or reverts it."""
    await case.deploy("web", requests=_SMALL, annotations={_STATE: state})
    before = await case.wait_until_ready("web")
    # More than the replicas, so that no pod is evicted.
    policy = {"updateMode": mode, "minReplicas": 3}
    await case.create_vpa("web", mode, updatePolicy=policy, recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_FITTING)
    await _wait_for_requests(case, _FITTING)
    await _wait_for_condition(case, "PodResizePending", reason=state.capitalize())
    lowered = {"cpu": "200m", "memory": "256Mi"}
    await case.set_recommendation("web", app=lowered)
    await _wait_for_requests(case, lowered)
    await case.set_recommendation("web", app=_SMALL)
    await _wait_for_requests(case, _SMALL)
    await case.wait_until_applied("web")
    await case.cluster.wait_for_cycles(UPDATER, 4)
    assert len(case.resizes()) == 3 * len(before), "no resize is sent twice"
    pods = await case.pods("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(_pending(pod) for pod in pods)
    assert not any(map(restarts, pods))
    assert not case.evictions()


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
async def test_cluster_conditions_improve(case: Case, mode: str) -> None:
    """AEP-8818: a resize beyond the capacity of the nodes is retried after they grew."""
    kubelets = case.cluster.control_plane.kubelets
    shapes = [node.shape for node in kubelets.nodes.values()]
    await case.deploy("web", requests=_SMALL)
    before = await case.wait_until_ready("web")
    policy = {"updateMode": mode, "minReplicas": 3}
    await case.create_vpa("web", mode, updatePolicy=policy, recommenders=OTHER_RECOMMENDER)
    beyond = {"cpu": "20", "memory": "256Mi"}
    await case.set_recommendation("web", app=beyond)
    await _wait_for_refusals(case, times=len(before))
    await case.cluster.wait_for_cycles(UPDATER, 4)
    pods = await case.pods("web")
    assert all(requests(pod)["cpu"] != beyond["cpu"] for pod in pods), "steps at most"
    try:
        for shape in shapes:
            larger = Totals(4 * shape.capacity.cpu, shape.capacity.memory)
            await kubelets.reshape(replace(shape, capacity=larger))
        pods = await case.wait_until_applied("web")
    finally:
        for shape in shapes:
            await kubelets.reshape(shape)
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert not case.evictions()


@pytest.mark.concurrent
async def test_stale_entries_are_cleaned(case: Case) -> None:
    """AEP-8818: the cache entry of a deleted pod isn't used for its replacement.

    The replacement has the pod's name, but another uid.
    """
    cluster, infeasible = case.cluster, {_STATE: "infeasible"}
    await case.deploy("web", requests=_SMALL, annotations=infeasible, controller=STATEFUL_SETS)
    before = await case.wait_until_ready("web")
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
    await case.create_vpa("web", "InPlace", targetRef=target, recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_FITTING)
    await _wait_until_skipped(case, len(before))
    await cluster.client.delete(PODS, "web-0", namespace=case.namespace)

    async def replaced() -> bool:
        return len(await case.uids("web") - before) == 1

    await cluster.wait_for(replaced, "web-0 is another pod")
    await case.wait_until_ready("web")
    await case.set_recommendation("web", app={"cpu": "500m", "memory": "256Mi"})

    async def sent() -> bool:
        return len(case.resizes()) > len(before)

    await cluster.wait_for(sent, "the replacement is resized")
    await cluster.wait_for_cycles(UPDATER, 4)
    assert sorted(case.resizes()) == ["web-0", "web-0", "web-1"]
    assert not case.evictions()


async def _deploy_with_target(
    case: Case, target: dict[str, str], *, annotations: Mapping[str, str] | None = None
) -> set[str]:
    """Deploy two small pods, and a VPA in mode InPlace with this target; return their uids."""
    await case.deploy("web", requests=_SMALL, annotations=annotations)
    before = await case.wait_until_ready("web")
    await case.create_vpa("web", "InPlace", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=target)
    return before


async def _wait_for_requests(case: Case, wanted: Mapping[str, str]) -> None:
    async def requested() -> bool:
        return all(requests(pod) == wanted for pod in await case.pods("web"))

    await case.cluster.wait_for(requested, "every pod requests its target")


async def _wait_for_condition(case: Case, kind: str, *, reason: str = "") -> None:
    """Wait until every pod has a condition of its resize."""

    async def reported() -> bool:
        return all(
            any(
                (one["type"], one["status"], one.get("reason", "")) == (kind, "True", reason)
                for one in pod["status"].get("conditions") or ()
            )
            for pod in await case.pods("web")
        )

    await case.cluster.wait_for(reported, f"{kind} {reason}")


def _pending(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "PodResizePending" for one in conditions)


async def _deploy_infeasible(case: Case) -> set[str]:
    """Deploy pods with an infeasible resize in their status; return their uids."""
    before = await _deploy_with_target(case, _FITTING, annotations={_STATE: "infeasible"})
    await _wait_for_condition(case, "PodResizePending", reason="Infeasible")
    return before


async def _repair_kubelet(case: Case) -> None:
    """Let the kubelet carry resizes out from now on."""
    for pod in await case.pods("web"):
        await case.cluster.client.patch(
            PODS.as_dicts(),
            pod["metadata"]["name"],
            {"metadata": {"annotations": {_STATE: None}}},
            patch_type=PatchType.MERGE,
            namespace=case.namespace,
        )


async def _wait_for_refusals(case: Case, *, times: int) -> None:
    async def refused() -> bool:
        return len(case.resizes(code=403)) >= times

    await case.cluster.wait_for(refused, f"{times} resizes are refused")


async def _wait_until_skipped(case: Case, pods: int) -> None:
    """Wait until the updater skips this number of pods because of cached infeasible resizes."""

    async def reported() -> bool:
        events = await case.events("InPlaceResizeSkipped")
        assert all("[infeasible_cached]" in event["message"] for event in events)
        return len({event["involvedObject"]["uid"] for event in events}) == pods

    await case.cluster.wait_for(reported, f"{pods} pods are skipped")


async def _skip_count(case: Case) -> float:
    """Return how many times pods were skipped for that reason."""
    metric = "vpa_updater_in_place_infeasible_skip_pods_total"
    return await case.cluster.metric_total(UPDATER, metric, vpa_namespace=case.namespace)
