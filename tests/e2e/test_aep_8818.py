"""AEP-8818, in-place updates only: one case for each line of the document's test plan."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import yaml

from common.kube.client import PatchType
from common.kube.endpoints import PODS, STATEFUL_SETS, VPAS
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import LARGE, Object, requests, restarts
from e2e.world import BY_HAND, QUOTAS, Case
from sandbox.kubelet.pod_resources import Totals
from workloads import autoscaler

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_FITTING = {"cpu": "300m", "memory": "256Mi"}
_TOO_MUCH = {"cpu": "20", "memory": "256Mi"}  # of nodes with 16 CPUs
_MORE = {"cpu": "24", "memory": "256Mi"}
_STATE = "kubelet.sandbox/resize"


@pytest.mark.concurrent
async def test_basic_in_place_update(case: Case) -> None:
    """AEP-8818: a pod is resized where it is, without a restart."""
    await case.deploy("web", requests=LARGE)
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlace")
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert not case.evictions()

    async def reported() -> bool:  # Events follow in the background
        return bool(await case.events("InPlaceResizedByVPA"))

    await case.world.until(reported, "the resize is reported")


@pytest.mark.concurrent
@pytest.mark.parametrize("state", ["error", "deferred", "unknown-reason", "silent"])
async def test_no_eviction_on_failure(case: Case, state: str) -> None:
    """AEP-8818: whatever the kubelet makes of a resize, no pod is evicted for it."""
    before = await _advised(case, _FITTING, annotations={_STATE: state})
    await _asked_for(case, _FITTING)
    await case.world.passes(UPDATER, 12)  # the time-outs of the other mode are over
    assert await case.uids("web") == before
    assert not case.evictions()
    assert len(case.resizes()) == len(before), "the same is not sent twice"


async def test_gate_off_rejects(case: Case) -> None:
    """AEP-8818: without the gate no VPA gets the mode; one that has it keeps it."""
    world = case.world
    await case.autoscale("older", "InPlace", recommenders=BY_HAND)
    path = world.kubectl.kubeconfig.with_name(f"{case.namespace}.yaml")
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    path.write_text(yaml.safe_dump(kind | autoscaler("newer", "InPlace")))

    async def refused() -> str:
        words = ("create", "--dry-run=server", "-f", str(path))
        code, printed = await world.kubectl.try_(*words, namespace=case.namespace)
        return printed if code else ""

    async with world.installation.changed(ADMISSION, "--feature-gates=InPlace=false"):
        sentence = await world.until(refused, "a new VPA with the mode is refused")
        assert 'The VerticalPodAutoscaler "newer" is invalid: ' in sentence
        assert "feature gate InPlace" in sentence
        await case.edit(VPAS, "older", updatePolicy={"updateMode": "InPlace", "minReplicas": 1})


@pytest.mark.concurrent
async def test_waits_indefinitely_while_in_progress(case: Case) -> None:
    """AEP-8818: no time-out ends a resize that the kubelet is at; nothing more is sent."""
    before = await _advised(case, _FITTING, annotations={_STATE: "stuck"})
    await _asked_for(case, _FITTING)
    await _told(case, "PodResizeInProgress")
    await case.world.passes(UPDATER, 12)  # longer than --in-place-in-progress-timeout
    assert await case.uids("web") == before
    assert not case.evictions()
    assert len(case.resizes()) == len(before)


@pytest.mark.concurrent
async def test_failed_then_retried_with_success(case: Case) -> None:
    """AEP-8818: what was refused for want of room is sent again, and fits once there is room."""
    world = case.world
    # The updater can't foresee what a quota with this scope refuses.
    await case.limit(scopes=("NotTerminating",), **{"requests.cpu": "250m"})
    before = await _advised(case, _FITTING)
    await _refused(case, times=1)
    await world.passes(UPDATER, 2)
    assert not case.resizes()
    await case.edit(QUOTAS, "quota", hard={"requests.cpu": "4"})
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert not case.evictions()


@pytest.mark.concurrent
async def test_a_kubelet_that_failed_has_success_with_the_same_resize(case: Case) -> None:
    """AEP-8818, failed then retried with success: after an error it is the kubelet that retries."""
    before = await _advised(case, _FITTING, annotations={_STATE: "error"})
    await _asked_for(case, _FITTING)
    await _told(case, "PodResizeInProgress", reason="Error")
    await _heal(case)
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert len(case.resizes()) == len(before)
    assert not case.evictions()


@pytest.mark.concurrent
async def test_infeasible_waits(case: Case) -> None:
    """AEP-8818: a resize that the kubelet calls infeasible leaves the pod running as it is."""
    before = await _infeasible_in_the_status(case)
    await case.world.passes(UPDATER, 6)
    assert await case.uids("web") == before
    assert not case.evictions()
    for pod in await case.pods("web"):
        (status,) = pod["status"]["containerStatuses"]
        assert status["ready"]
        assert status["resources"]["requests"] == _SMALL


@pytest.mark.concurrent
async def test_status_infeasible_is_stored(case: Case) -> None:
    """AEP-8818: what the spec asks for is remembered, and the pod is passed over because of it.

    Kubernetes 1.36 refuses what is too much for a node before its kubelet sees it, so the kubelet
    says it on purpose.
    """
    before = await _infeasible_in_the_status(case)
    await _remembered(case, len(before))
    assert len(case.resizes()) == len(before), "each pod once"


@pytest.mark.concurrent
async def test_node_capacity_is_stored(case: Case) -> None:
    """AEP-8818: so is what the API server refuses with the cause NodeCapacity (Kubernetes 1.36)."""
    before = await _advised(case, _TOO_MUCH)
    await _remembered(case, len(before))
    assert len(case.resizes(code=403)) == len(before), "each pod once"
    assert await case.uids("web") == before
    assert not case.resizes() + case.evictions()


@pytest.mark.concurrent
async def test_no_retry_while_unchanged(case: Case) -> None:
    """AEP-8818: nothing is sent again while nothing is lower, not even where more is wanted."""
    before = await _advised(case, _TOO_MUCH)
    await _remembered(case, len(before))
    skipped = await _skipped(case)
    await case.world.passes(UPDATER, 4)
    assert await _skipped(case) > skipped, "it was looked at, and passed over"
    await case.advise("web", app=_MORE)
    await case.world.passes(UPDATER, 4)
    assert len(case.resizes(code=403)) == len(before)
    assert not case.resizes() + case.evictions()


@pytest.mark.concurrent
async def test_retry_when_lowered_after_node_capacity(case: Case) -> None:
    """AEP-8818: one resource that is lower is enough, though another one is higher."""
    before = await _advised(case, _TOO_MUCH)
    await _remembered(case, len(before))
    await case.advise("web", app={"cpu": "300m", "memory": "512Mi"})
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not case.evictions()


@pytest.mark.concurrent
async def test_retry_when_lowered_after_status_infeasible(case: Case) -> None:
    """AEP-8818: the same where the kubelet still says Infeasible about what was sent before."""
    before = await _infeasible_in_the_status(case)
    await _remembered(case, len(before))
    await _heal(case)
    lowered = {"cpu": "200m", "memory": "256Mi"}
    await case.advise("web", app=lowered)
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert len(case.resizes()) == 2 * len(before)
    assert not case.evictions()


@pytest.mark.concurrent
async def test_success_clears(case: Case) -> None:
    """AEP-8818: after a success the first attempt counts as none, and may be made anew."""
    before = await _advised(case, _TOO_MUCH)
    await _remembered(case, len(before))
    await case.advise("web", app=_FITTING)
    await case.fits("web")
    await case.advise("web", app=_TOO_MUCH)
    await _refused(case, times=2 * len(before))
    assert await case.uids("web") == before
    assert not case.evictions()


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
@pytest.mark.parametrize("state", ["deferred", "infeasible"])
async def test_a_pending_resize_follows_the_recommendation(
    case: Case, state: str, mode: str
) -> None:
    """AEP-8818: another recommendation replaces a pending resize, or takes it back."""
    await case.deploy("web", requests=_SMALL, annotations={_STATE: state})
    before = await case.ready("web")
    # More replicas than there are, so that no pod is evicted.
    policy = {"updateMode": mode, "minReplicas": 3}
    await case.autoscale("web", mode, updatePolicy=policy, recommenders=BY_HAND)
    await case.advise("web", app=_FITTING)
    await _asked_for(case, _FITTING)
    await _told(case, "PodResizePending", reason=state.capitalize())
    lowered = {"cpu": "200m", "memory": "256Mi"}
    await case.advise("web", app=lowered)
    await _asked_for(case, lowered)
    await case.advise("web", app=_SMALL)
    await _asked_for(case, _SMALL)
    await case.fits("web")
    await case.world.passes(UPDATER, 4)
    assert len(case.resizes()) == 3 * len(before), "nothing is sent twice"
    pods = await case.pods("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(_pending(pod) for pod in pods)
    assert not any(map(restarts, pods))
    assert not case.evictions()


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
async def test_cluster_conditions_improve(case: Case, mode: str) -> None:
    """AEP-8818: what no node could hold is tried again once the nodes have grown."""
    kubelets = case.world.cluster.kubelets
    shapes = [node.shape for node in kubelets.nodes.values()]
    await case.deploy("web", requests=_SMALL)
    before = await case.ready("web")
    policy = {"updateMode": mode, "minReplicas": 3}
    await case.autoscale("web", mode, updatePolicy=policy, recommenders=BY_HAND)
    await case.advise("web", app=_TOO_MUCH)
    await _refused(case, times=len(before))
    await case.world.passes(UPDATER, 4)
    assert not case.resizes()
    try:
        for shape in shapes:
            larger = Totals(4 * shape.capacity.cpu, shape.capacity.memory)
            await kubelets.reshape(replace(shape, capacity=larger))
        pods = await case.fits("web")
    finally:
        for shape in shapes:
            await kubelets.reshape(shape)
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert not case.evictions()


@pytest.mark.concurrent
async def test_stale_entries_are_cleaned(case: Case) -> None:
    """AEP-8818: what is remembered of a pod goes with it, and says nothing about its successor.

    The successor has the pod's name, but not its uid.
    """
    world, infeasible = case.world, {_STATE: "infeasible"}
    await case.deploy("web", requests=_SMALL, annotations=infeasible, controller=STATEFUL_SETS)
    before = await case.ready("web")
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
    await case.autoscale("web", "InPlace", targetRef=target, recommenders=BY_HAND)
    await case.advise("web", app=_FITTING)
    await _remembered(case, len(before))
    await world.client.delete(PODS, "web-0", namespace=case.namespace)

    async def succeeded() -> bool:
        return len(await case.uids("web") - before) == 1

    await world.until(succeeded, "web-0 is another pod")
    await case.ready("web")
    await case.advise("web", app={"cpu": "500m", "memory": "256Mi"})

    async def sent() -> bool:
        return len(case.resizes()) > len(before)

    await world.until(sent, "the successor is resized")
    await world.passes(UPDATER, 4)
    assert sorted(case.resizes()) == ["web-0", "web-0", "web-1"]
    assert not case.evictions()


async def _advised(
    case: Case, target: dict[str, str], *, annotations: Mapping[str, str] | None = None
) -> set[str]:
    """Two small pods, and a VPA in mode InPlace with a recommendation; the pods' uids."""
    await case.deploy("web", requests=_SMALL, annotations=annotations)
    before = await case.ready("web")
    await case.autoscale("web", "InPlace", recommenders=BY_HAND)
    await case.advise("web", app=target)
    return before


async def _asked_for(case: Case, wanted: Mapping[str, str]) -> None:
    async def asked() -> bool:
        return all(requests(pod) == wanted for pod in await case.pods("web"))

    await case.world.until(asked, "every pod asks for its target")


async def _told(case: Case, kind: str, *, reason: str = "") -> None:
    """Wait until the kubelet says something about every pod's resize."""

    async def told() -> bool:
        return all(
            any(
                (one["type"], one["status"], one.get("reason", "")) == (kind, "True", reason)
                for one in pod["status"].get("conditions") or ()
            )
            for pod in await case.pods("web")
        )

    await case.world.until(told, f"{kind} {reason}")


def _pending(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "PodResizePending" for one in conditions)


async def _infeasible_in_the_status(case: Case) -> set[str]:
    """Pods whose kubelet has called their resize infeasible; their uids."""
    before = await _advised(case, _FITTING, annotations={_STATE: "infeasible"})
    await _told(case, "PodResizePending", reason="Infeasible")
    return before


async def _heal(case: Case) -> None:
    """From now on the kubelet carries resizes out."""
    for pod in await case.pods("web"):
        await case.world.client.patch(
            PODS.as_dicts(),
            pod["metadata"]["name"],
            {"metadata": {"annotations": {_STATE: None}}},
            patch_type=PatchType.MERGE,
            namespace=case.namespace,
        )


async def _refused(case: Case, *, times: int) -> None:
    async def refused() -> bool:
        return len(case.resizes(code=403)) >= times

    await case.world.until(refused, f"{times} resizes are refused")


async def _remembered(case: Case, pods: int) -> None:
    """Wait until the updater passes so many pods over because of what did not fit before."""

    async def told() -> bool:
        events = await case.events("InPlaceResizeSkipped")
        assert all("[infeasible_cached]" in event["message"] for event in events)
        return len({event["involvedObject"]["uid"] for event in events}) == pods

    await case.world.until(told, f"{pods} pods are passed over")


async def _skipped(case: Case) -> float:
    """How often pods were passed over for that."""
    metric = "vpa_updater_in_place_infeasible_skip_pods_total"
    return await case.world.total(UPDATER, metric, vpa_namespace=case.namespace)
