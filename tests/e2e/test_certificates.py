"""The CronJob of our manifests: it renews the webhook's certificates, and pods stay patched."""

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
from common.kube.endpoints import MUTATING_WEBHOOKS, PODS, SECRETS
from e2e.cluster import Case, Cluster
from e2e.control_plane import WEBHOOK_PORT
from e2e.installation import ADMISSION, CERTIFICATES, SYSTEM
from e2e.pods import LARGE, Object, requests

_CRON_JOB = f"cronjob/{CERTIFICATES}"
_SECRET = "vpa-tls-certs"
_INTERVAL = 0.1  # seconds between two creations


@dataclass
class PodCreation:
    """Pods of a Deployment that are created continuously, as the API server stored them."""

    stored: list[Object] = field(default_factory=list)

    async def wait_for_more(self, cluster: Cluster, count: int = 10) -> None:
        """Wait until ``count`` more pods have been created."""
        wanted = len(self.stored) + count

        async def created() -> bool:
            return len(self.stored) >= wanted

        await cluster.wait_for(created, f"{wanted} pods")

    @property
    def unpatched(self) -> list[str]:
        """Return the names of the pods that the webhook hasn't patched."""
        return [
            pod["metadata"]["name"]
            for pod in self.stored
            if "vpaUpdates" not in pod["metadata"].get("annotations", {}) or requests(pod) == LARGE
        ]


@asynccontextmanager
async def continuous_creation(case: Case, app: str) -> AsyncIterator[PodCreation]:
    """Create pods of a Deployment that are never scheduled, one after the other."""
    await case.deploy(app, replicas=1, requests=LARGE)
    await case.wait_until_measured(app, replicas=1)
    await case.create_vpa(app, "Initial")
    await case.wait_for_recommendation(app)
    manifest = await case.gated_pod(app)
    creation = PodCreation()

    async def create() -> None:
        while True:
            creation.stored.append(await case.create(PODS, manifest))
            await asyncio.sleep(_INTERVAL)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(create())
        await creation.wait_for_more(case.cluster)
        yield creation
        await creation.wait_for_more(case.cluster)
        task.cancel()


async def run_job(case: Case, step: str, *arguments: str) -> None:
    """Run a Job of the CronJob with these arguments, and wait until it has succeeded.

    kubectl prints the Job instead of creating it, so that arguments can be added.
    """
    cluster, name = case.cluster, f"{CERTIFICATES}-{step}-{case.namespace[-6:]}"
    words = ("create", "job", name, f"--from={_CRON_JOB}", "--dry-run=client", "-o", "json")
    job: Object = json.loads(await cluster.kubectl(*words, namespace=SYSTEM))
    job["spec"]["template"]["spec"]["containers"][0]["args"] = list(arguments)
    path = cluster.kubectl.kubeconfig.with_name(f"{name}.json")
    path.write_text(json.dumps(job))
    await cluster.kubectl("create", "-f", str(path), namespace=SYSTEM)
    await wait_for_job(cluster, name)


async def wait_for_job(cluster: Cluster, job: str) -> None:
    words = ("wait", f"job/{job}", "--for=condition=complete", "--timeout=50s")
    await cluster.kubectl(*words, namespace=SYSTEM)


async def served_certificate() -> x509.Certificate:
    """Return the certificate that the webhook serves."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", WEBHOOK_PORT, ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown)


async def trusted_authorities(cluster: Cluster) -> Sequence[x509.Certificate]:
    """Return the authorities that API servers trust, the newest first."""
    return authority.read_certificates(await ca_bundle.read(cluster.client))


async def secret_value(cluster: Cluster, name: str) -> bytes:
    """Return a value of the Secret."""
    found = await cluster.client.get(SECRETS, _SECRET, namespace=SYSTEM)
    return base64.b64decode(found["data"][name])


async def wait_until_served(cluster: Cluster) -> None:
    """Wait until the webhook serves the certificate of the Secret."""
    (wanted,) = authority.read_certificates(await secret_value(cluster, "serverCert.pem"))

    async def shown() -> bool:
        return await served_certificate() == wanted

    await cluster.wait_for(shown, "the webhook serves the certificate of the Secret")


async def test_a_renewal_by_the_cron_job_leaves_no_pod_unpatched(case: Case) -> None:
    cluster = case.cluster
    async with continuous_creation(case, "web") as creation:
        first, (old, *_) = await served_certificate(), await trusted_authorities(cluster)

        await run_job(case, "begin", "--renew")
        new, beside, *_ = await trusted_authorities(cluster)
        assert (beside, await served_certificate()) == (old, first)
        assert new != old
        await creation.wait_for_more(cluster)

        await run_job(case, "go-on", "--settle=0s")
        await wait_until_served(cluster)
        assert authority.signed_by(await served_certificate(), new)
        await creation.wait_for_more(cluster)

        await run_job(case, "finish", "--overlap=0s")

        async def dropped() -> bool:
            return await trusted_authorities(cluster) == [new]

        # An admission pod whose volume is out of date adds the old one again for a moment.
        await cluster.wait_for(dropped, "API servers trust the new authority alone")
        await creation.wait_for_more(cluster)
    assert creation.unpatched == []
    assert [call for call in cluster.audited_calls(CERTIFICATES) if call.denied] == []


async def test_a_deleted_secret_is_filled_again_and_no_pod_is_left_unpatched(case: Case) -> None:
    """The account may not create the Secret: applying the manifests creates an empty one."""
    cluster, empty = case.cluster, {"metadata": {"name": _SECRET}, "type": "Opaque"}
    async with continuous_creation(case, "web") as creation:
        first, (old, *_) = await served_certificate(), await trusted_authorities(cluster)
        await cluster.client.delete(SECRETS, _SECRET, namespace=SYSTEM)
        await cluster.client.create(SECRETS, empty, namespace=SYSTEM)
        await run_job(case, "again")
        assert old in await trusted_authorities(cluster)
        await wait_until_served(cluster)
        assert await served_certificate() != first
        await creation.wait_for_more(cluster)
    assert creation.unpatched == []


async def test_a_run_that_finds_nothing_due_changes_nothing(case: Case) -> None:
    """The command is from docs/operations.md."""
    cluster, name = case.cluster, f"{CERTIFICATES}-first-{case.namespace[-6:]}"
    before = (
        await cluster.client.get(SECRETS, _SECRET, namespace=SYSTEM),
        await trusted_authorities(cluster),
    )
    await cluster.kubectl("create", "job", f"--from={_CRON_JOB}", name, namespace=SYSTEM)
    await wait_for_job(cluster, name)
    after = (
        await cluster.client.get(SECRETS, _SECRET, namespace=SYSTEM),
        await trusted_authorities(cluster),
    )
    assert after == before


async def test_the_cron_job_runs_while_the_failing_webhook_refuses_other_pods(
    case: Case,
) -> None:
    """With the failure policy Fail no other pods can be created while the webhook is down."""
    cluster = case.cluster
    async with cluster.installation.with_arguments(ADMISSION, "--webhook-failure-policy-fail"):

        async def refusing() -> bool:
            hooks = await cluster.client.get(MUTATING_WEBHOOKS, ca_bundle.CONFIGURATION_NAME)
            return all(each["failurePolicy"] == "Fail" for each in hooks["webhooks"])

        await cluster.wait_for(refusing, "the failure policy Fail")
        async with cluster.installation.scaled_to_zero(ADMISSION):
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

            await cluster.wait_for(refused, "API servers have read the failure policy")
            await run_job(case, "meanwhile")
