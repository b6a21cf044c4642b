"""A component whose token becomes invalid."""

import json
from base64 import b64encode

from common.kube.client import PatchType
from common.kube.endpoints import SECRETS
from e2e.cluster import Case, Cluster
from e2e.installation import RECOMMENDER, SYSTEM

_TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


async def _token(cluster: Cluster, anchor: str) -> str:
    """Return a token that is valid while a Secret exists."""
    await cluster.client.create(
        SECRETS, {"metadata": {"name": anchor}, "type": "Opaque"}, namespace=SYSTEM
    )
    printed = await cluster.kubectl(
        "create",
        "token",
        RECOMMENDER,
        "--bound-object-kind=Secret",
        f"--bound-object-name={anchor}",
        namespace=SYSTEM,
    )
    return b64encode(printed.strip().encode()).decode()


async def test_a_component_uses_the_replacement_of_an_invalid_token(
    case: Case,
) -> None:
    cluster = case.cluster
    names = [f"{case.namespace}-{which}" for which in ("first", "second", "token")]
    first, second, file = names
    try:
        body = {"metadata": {"name": file}, "data": {"token": await _token(cluster, first)}}
        await cluster.client.create(SECRETS, body, namespace=SYSTEM)
        pod = {
            "volumes": [{"name": "token", "secret": {"secretName": file}}],
            "containers": [
                {
                    "name": "recommender",
                    "volumeMounts": [{"name": "token", "mountPath": _TOKEN_FOLDER}],
                }
            ],
        }
        patch = json.dumps({"spec": {"template": {"spec": pod}}})
        async with cluster.installation.patched(RECOMMENDER, patch):
            restart_counts = await cluster.restart_counts()
            await cluster.client.delete(SECRETS, first, namespace=SYSTEM)

            async def refused() -> bool:
                # It fails while a pod of the former Deployment ends.
                target = f"deployment/{RECOMMENDER}"
                _, printed = await cluster.kubectl.run("logs", target, namespace=SYSTEM)
                return "Unauthorized" in printed

            await cluster.wait_for(refused, "the old token is refused")
            await cluster.client.patch(
                SECRETS,
                file,
                {"data": {"token": await _token(cluster, second)}},
                patch_type=PatchType.MERGE,
                namespace=SYSTEM,
            )
            await case.deploy("web")
            await case.create_vpa("web", "Off")
            await case.wait_for_recommendation("web")
            assert await cluster.restart_counts() == restart_counts
    finally:
        for name in names:
            await cluster.kubectl.run(
                "delete", "secret", name, "--ignore-not-found", namespace=SYSTEM
            )
