"""What a component does when its credential is no longer one."""

import json
from base64 import b64encode

from common.kube.client import PatchType
from common.kube.endpoints import SECRETS
from e2e.installation import RECOMMENDER, SYSTEM
from e2e.world import Case, World

_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


async def _token(world: World, anchor: str) -> str:
    """A token that is good as long as a Secret exists."""
    await world.client.create(
        SECRETS, {"metadata": {"name": anchor}, "type": "Opaque"}, namespace=SYSTEM
    )
    printed = await world.kubectl(
        "create", "token", RECOMMENDER, "--bound-object-kind=Secret",
        f"--bound-object-name={anchor}", namespace=SYSTEM,
    )  # fmt: skip
    return b64encode(printed.strip().encode()).decode()


async def test_a_component_goes_on_when_its_token_became_invalid_and_was_replaced(
    case: Case,
) -> None:
    world = case.world
    names = [f"{case.namespace}-{which}" for which in ("first", "second", "token")]
    first, second, file = names
    try:
        body = {"metadata": {"name": file}, "data": {"token": await _token(world, first)}}
        await world.client.create(SECRETS, body, namespace=SYSTEM)
        pod = {
            "volumes": [{"name": "token", "secret": {"secretName": file}}],
            "containers": [
                {
                    "name": "recommender",
                    "volumeMounts": [{"name": "token", "mountPath": _FOLDER}],
                }
            ],
        }
        patch = json.dumps({"spec": {"template": {"spec": pod}}})
        async with world.installation.patched(RECOMMENDER, patch):
            runs = await world.runs()
            await world.client.delete(SECRETS, first, namespace=SYSTEM)

            async def refused() -> bool:
                target = f"deployment/{RECOMMENDER}"
                return "Unauthorized" in await world.kubectl("logs", target, namespace=SYSTEM)

            await world.until(refused, "the old token is refused")
            await world.client.patch(
                SECRETS,
                file,
                {"data": {"token": await _token(world, second)}},
                patch_type=PatchType.MERGE,
                namespace=SYSTEM,
            )
            await case.deploy("web")
            await case.autoscale("web", "Off")
            await case.recommended("web")
            assert await world.runs() == runs
    finally:
        for name in names:
            await world.kubectl.try_(
                "delete", "secret", name, "--ignore-not-found", namespace=SYSTEM
            )
