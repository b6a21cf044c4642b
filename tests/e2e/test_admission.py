"""The webhook's promises."""

from e2e.installation import ADMISSION
from e2e.world import LARGE, Case, requests

_TOLD = "vpaUpdates"


async def test_a_new_pod_gets_the_recommendation(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial")
    target = await case.recommended("web")
    await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
    (pod,) = await case.running("web", replicas=1)
    assert requests(pod) == target
    assert "Pod resources updated by web" in pod["metadata"]["annotations"][_TOLD]


async def test_a_pod_is_created_as_it_was_sent_while_the_webhook_is_down(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial")
    await case.recommended("web")
    async with case.world.installation.without(ADMISSION):
        await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
        (pod,) = await case.running("web", replicas=1)
    assert requests(pod) == LARGE
    assert _TOLD not in pod["metadata"].get("annotations", {})


async def test_a_vpa_that_says_nonsense_is_refused(case: Case) -> None:
    manifest = (
        "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n"
        "metadata: {name: web}\nspec:\n"
        "  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
        "  updatePolicy: {updateMode: Recreate, minReplicas: 0}\n"
    )
    path = case.world.kubectl.kubeconfig.with_name("nonsense.yaml")
    path.write_text(manifest)
    code, printed = await case.world.kubectl.try_(
        "create", "-f", str(path), namespace=case.namespace
    )
    assert code == 1
    assert "minReplicas" in printed
