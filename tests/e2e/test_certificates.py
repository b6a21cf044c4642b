"""The CronJob of our manifests looks after the webhook's certificates, and no pod notices."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cryptography import x509

from certs import authority
from common.errors import KubeError
from common.kube import ca_bundle
from common.kube.endpoints import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, SECRETS
from e2e.clusters import WEBHOOK_PORT
from e2e.installation import ADMISSION, CERTIFICATES, SYSTEM
from e2e.pods import LARGE, Object, requests
from e2e.world import Case, World

_CRON_JOB = f"cronjob/{CERTIFICATES}"
_SECRET = "vpa-tls-certs"
_PAUSE = 0.1  # seconds between two pods


@dataclass
class Creation:
    """Pods of a Deployment that are created without a pause, as the API server stored them."""

    stored: list[Object] = field(default_factory=list)

    async def more(self, world: World, count: int = 10) -> None:
        """Wait until so many more have been created."""
        wanted = len(self.stored) + count

        async def created() -> bool:
            return len(self.stored) >= wanted

        await world.until(created, f"{wanted} pods")

    @property
    def left_alone(self) -> list[str]:
        """Names of the pods that the webhook has not patched."""
        return [
            pod["metadata"]["name"]
            for pod in self.stored
            if "vpaUpdates" not in pod["metadata"].get("annotations", {}) or requests(pod) == LARGE
        ]


@asynccontextmanager
async def pods_all_along(case: Case, app: str) -> AsyncIterator[Creation]:
    """Create one pod after the other that belongs to a Deployment and is never scheduled."""
    await case.deploy(app, replicas=1, requests=LARGE)
    await case.running(app, replicas=1)
    await case.autoscale(app, "Initial")
    await case.recommended(app)
    owner = await case.world.client.get(DEPLOYMENTS.as_dicts(), app, namespace=case.namespace)
    reference = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": app,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    manifest = {
        "metadata": {
            "generateName": f"{app}-",
            "labels": {"app": app},
            "ownerReferences": [reference],
        },
        "spec": {
            **owner["spec"]["template"]["spec"],
            "schedulingGates": [{"name": "example.com/held"}],
        },
    }
    creation = Creation()

    async def create() -> None:
        while True:
            creation.stored.append(await case.create(PODS, manifest))
            await asyncio.sleep(_PAUSE)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(create())
        await creation.more(case.world)
        yield creation
        await creation.more(case.world)
        task.cancel()


async def run_now(case: Case, step: str, *arguments: str) -> None:
    """Run the CronJob's Job now, with more arguments, and wait until it has succeeded.

    kubectl prints the Job instead of sending it, so that arguments can be added.
    """
    world, name = case.world, f"{CERTIFICATES}-{step}-{case.namespace[-6:]}"
    words = ("create", "job", name, f"--from={_CRON_JOB}", "--dry-run=client", "-o", "json")
    job: Object = json.loads(await world.kubectl(*words, namespace=SYSTEM))
    job["spec"]["template"]["spec"]["containers"][0]["args"] = list(arguments)
    path = world.kubectl.kubeconfig.with_name(f"{name}.json")
    path.write_text(json.dumps(job))
    await world.kubectl("create", "-f", str(path), namespace=SYSTEM)
    await succeeds(world, name)


async def succeeds(world: World, job: str) -> None:
    words = ("wait", f"job/{job}", "--for=condition=complete", "--timeout=50s")
    await world.kubectl(*words, namespace=SYSTEM)


async def served() -> x509.Certificate:
    """What the webhook shows to whoever connects now."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", WEBHOOK_PORT, ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown)


async def trusted(world: World) -> Sequence[x509.Certificate]:
    """The authorities that API servers trust, the newest first."""
    return authority.read_certificates(await ca_bundle.read(world.client))


async def kept(world: World, name: str) -> bytes:
    """A member of the Secret."""
    found = await world.client.get(SECRETS, _SECRET, namespace=SYSTEM)
    return base64.b64decode(found["data"][name])


async def serves_what_is_kept(world: World) -> None:
    """Wait until the webhook shows the serving certificate of the Secret."""
    (wanted,) = authority.read_certificates(await kept(world, "serverCert.pem"))

    async def shown() -> bool:
        return await served() == wanted

    await world.until(shown, "the webhook serves what the Secret keeps")


async def test_a_renewal_by_the_cron_job_leaves_no_pod_unpatched(case: Case) -> None:
    world = case.world
    async with pods_all_along(case, "web") as creation:
        first, (old, *_) = await served(), await trusted(world)

        await run_now(case, "begin", "--renew")
        new, beside, *_ = await trusted(world)
        assert (beside, await served()) == (old, first)
        assert new != old
        await creation.more(world)

        await run_now(case, "go-on", "--settle=0s")
        await serves_what_is_kept(world)
        assert authority.signed_by(await served(), new)
        await creation.more(world)

        await run_now(case, "finish", "--overlap=0s")

        async def dropped() -> bool:
            return await trusted(world) == [new]

        # An admission pod whose volume is a step behind asks for both once more.
        await world.until(dropped, "API servers trust the new authority alone")
        await creation.more(world)
    assert creation.left_alone == []
    assert [call for call in world.done(CERTIFICATES) if call.denied] == []


async def test_a_deleted_secret_is_filled_again_and_no_pod_is_left_unpatched(case: Case) -> None:
    """The account may not create it: manifests that are applied again bring an empty one."""
    world, empty = case.world, {"metadata": {"name": _SECRET}, "type": "Opaque"}
    async with pods_all_along(case, "web") as creation:
        first, (old, *_) = await served(), await trusted(world)
        await world.client.delete(SECRETS, _SECRET, namespace=SYSTEM)
        await world.client.create(SECRETS, empty, namespace=SYSTEM)
        await run_now(case, "again")
        assert old in await trusted(world)
        await serves_what_is_kept(world)
        assert await served() != first
        await creation.more(world)
    assert creation.left_alone == []


async def test_a_run_that_finds_nothing_due_changes_nothing(case: Case) -> None:
    """The command is that of docs/operations.md."""
    world, name = case.world, f"{CERTIFICATES}-first-{case.namespace[-6:]}"
    before = await world.client.get(SECRETS, _SECRET, namespace=SYSTEM), await trusted(world)
    await world.kubectl("create", "job", f"--from={_CRON_JOB}", name, namespace=SYSTEM)
    await succeeds(world, name)
    after = await world.client.get(SECRETS, _SECRET, namespace=SYSTEM), await trusted(world)
    assert after == before


async def test_a_webhook_that_fails_every_pod_does_not_hold_up_the_pods_that_renew(
    case: Case,
) -> None:
    """With the failure policy Fail nobody else's pods can be created while it is away."""
    world = case.world
    async with world.installation.changed(ADMISSION, "--webhook-failure-policy-fail"):

        async def refusing() -> bool:
            hooks = await world.client.get(MUTATING_WEBHOOKS, ca_bundle.CONFIGURATION_NAME)
            return all(each["failurePolicy"] == "Fail" for each in hooks["webhooks"])

        await world.until(refusing, "the failure policy Fail")
        async with world.installation.without(ADMISSION):
            pod = {
                "metadata": {"generateName": "web-"},
                "spec": {"containers": [{"name": "app", "image": "registry.example/app"}]},
            }

            async def refused() -> bool:
                try:
                    await case.create(PODS, pod)
                except KubeError as error:
                    return "failed calling webhook" in str(error)
                return False

            await world.until(refused, "API servers have read the failure policy")
            await run_now(case, "meanwhile")
