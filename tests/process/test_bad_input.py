"""Invalid objects and requests affect only themselves."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from common.kube.client import PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS, PODS, VPAS
from component import Process
from process_harness import World, world
from webhook_client import Connection
from webhook_harness import pod_request, vpa_request
from workloads import NAMESPACE, autoscaler, deploy, loosened

INVALID = {"containerName": "app", "target": {"cpu": "lots", "memory": "1Gi of it"}}
UNUSUAL: dict[str, dict[str, dict[str, str]]] = {
    "nothing": {"requests": {}},
    "exponents": {"requests": {"cpu": "2e-1", "memory": "1.5e8"}},
    "tiny": {"requests": {"cpu": "1n", "memory": "1m"}, "limits": {"memory": "129Mi"}},
    "huge": {"requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": "7E"}},
    "other": {"requests": {"ephemeral-storage": "1.5Gi"}},
}
MALFORMED = (
    b"",
    b"{",
    b"\xff\xfe",
    b"null",
    b"[]",
    b'{"request": 7}',
    b'{"request": {"uid": 7}}',
    b'{"request": {"uid": "u", "resource": "pods", "object": {}}}',
    b'{"request": {"uid": "u", "object": {"spec": {"containers": "many"}}}}',
    b'{"request": ' * 10_000,
)


async def test_invalid_objects_affect_no_other_object(tmp_path: Path) -> None:
    async with world(tmp_path, change=loosened) as it:
        recommender = await it.start("recommender")
        # Written before our webhook was registered, or for a later version of ours.
        await deploy(it.client, "sideways", replicas=2, mode="Sideways")
        await deploy(it.client, "nonsense", replicas=2, recommenders=[{"name": "another"}])
        await publish_invalid_recommendation(it, "nonsense")
        policy = {"containerName": "*", "minAllowed": {"cpu": "a few"}}
        await deploy(
            it.client, "bounded", replicas=2, resourcePolicy={"containerPolicies": [policy]}
        )
        await deploy(it.client, "fine", replicas=2)
        for name, resources in UNUSUAL.items():
            requests, limits = resources["requests"], resources.get("limits")
            await deploy(it.client, name, replicas=2, requests=requests, limits=limits)
        await deploy(it.client, "ghosts", replicas=2, node="nowhere")
        await it.until(lambda: len(it.pods_of("ghosts")) == 2)
        for pod in it.pods_of("ghosts"):
            await report_invalid_resources(it, pod.metadata.name)
        await it.until(lambda: bool(it.target("fine")) and bool(it.target("sideways")))

        admission, updater = await it.start("admission"), await it.start("updater")
        await it.until(lambda: all(it.fits(name, 2) for name in ("fine", *UNUSUAL)))
        await it.passes(recommender, updater)
        for name in ("sideways", "nonsense", "bounded", "ghosts"):
            assert it.evicted(name) + it.resized(name) == [], name
        assert it.target("nonsense") == INVALID["target"]
        for process in (recommender, updater, admission):
            assert process.said("Traceback") == [], process.name
            assert await process.get("/health-check") == (200, "OK")

        await check_malformed_reviews(it, admission)


async def report_invalid_resources(it: World, pod: str) -> None:
    """Let a pod on a missing node report invalid resources."""
    reported = {
        "name": "app",
        "ready": True,
        "restartCount": 0,
        "image": "app",
        "imageID": "",
        "state": {"running": {"startedAt": "1970-01-01T00:00:00Z"}},
        "resources": {"requests": {"cpu": "-1", "memory": "some"}},
    }
    status = {"phase": "Running", "containerStatuses": [reported]}
    await it.client.patch(
        PODS,
        pod,
        {"status": status},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )


async def publish_invalid_recommendation(it: World, name: str) -> None:
    recommendation = {"containerRecommendations": [INVALID]}
    await it.client.patch(
        VPAS,
        name,
        {"status": {"recommendation": recommendation}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )


async def check_malformed_reviews(it: World, admission: Process) -> None:
    """Check that malformed reviews and the valid ones after them get a response."""
    (hook,) = (await it.client.get(MUTATING_WEBHOOKS, "vpa-webhook-config"))["webhooks"]
    port = urlsplit(hook["clientConfig"]["url"]).port
    assert port is not None
    for body in MALFORMED:
        async with Connection.to(port, it.authority) as connection:
            status, answer = await connection.send(body)
            assert status < 500, (body[:40], status)
            if status == 200:
                assert json.loads(answer)["response"]["allowed"], body[:40]
            pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app"}]}}
            assert (await connection.review(pod_request(pod, namespace=NAMESPACE)))["allowed"]
    # Only an invalid VPA is refused.
    async with Connection.to(port, it.authority) as connection:
        request = vpa_request(autoscaler("new", "Sideways"))
        assert not (await connection.review(request))["allowed"]
    assert admission.said("Traceback") == []
