"""Admission keeps the webhook's certificates, and pods stay patched."""

import asyncio
import base64
import ssl
import sys
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
from e2e.installation import ADMISSION, SYSTEM
from e2e.kubectl import run_command
from e2e.pods import LARGE, Object, requests

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


async def certs(cluster: Cluster, *arguments: str) -> None:
    """Run ``certs`` by hand, with the administrator's kubeconfig."""
    words = ("certs", f"--kubeconfig={cluster.kubectl.kubeconfig}", *arguments)
    assert (await run_command(sys.executable, "-P", "-m", *words))[0] == 0


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


async def test_admission_completes_a_renewal_that_leaves_no_pod_unpatched(case: Case) -> None:
    """Started by hand, and continued with shorter times; admission follows each step."""
    cluster = case.cluster
    async with continuous_creation(case, "web") as creation:
        first, (old, *_) = await served_certificate(), await trusted_authorities(cluster)

        await certs(cluster, "--renew")

        async def both() -> Sequence[x509.Certificate]:
            """Return the authorities; admission may have restored the former ones for a moment."""
            found = await trusted_authorities(cluster)
            return found if len(found) > 1 else ()

        new, beside, *_ = await cluster.wait_for(both, "both authorities are trusted")
        assert (beside, await served_certificate()) == (old, first)
        assert new != old
        await creation.wait_for_more(cluster)

        await certs(cluster, "--settle=0s")
        await wait_until_served(cluster)
        assert authority.signed_by(await served_certificate(), new)
        await creation.wait_for_more(cluster)

        await certs(cluster, "--overlap=0s")

        async def dropped() -> bool:
            return await trusted_authorities(cluster) == [new]

        # An admission pod whose files are out of date adds the old one again for a moment.
        await cluster.wait_for(dropped, "API servers trust the new authority alone")
        await creation.wait_for_more(cluster)
    assert creation.unpatched == []


async def test_an_emptied_secret_is_filled_again_and_no_pod_is_left_unpatched(case: Case) -> None:
    """The command is from docs/certificates.md: it replaces both keys."""
    cluster = case.cluster
    async with continuous_creation(case, "web") as creation:
        first, (old, *_) = await served_certificate(), await trusted_authorities(cluster)
        words = ("patch", "secret", _SECRET, "--type=merge", '--patch={"data":null}')
        await cluster.kubectl(*words, namespace=SYSTEM)

        async def replaced() -> bool:
            return await served_certificate() != first

        await cluster.wait_for(replaced, "the webhook serves another certificate")
        await wait_until_served(cluster)
        assert old in await trusted_authorities(cluster)
        await creation.wait_for_more(cluster)
    assert creation.unpatched == []


async def test_a_run_that_finds_nothing_due_changes_nothing(case: Case) -> None:
    cluster = case.cluster
    before = (
        await cluster.client.get(SECRETS, _SECRET, namespace=SYSTEM),
        await trusted_authorities(cluster),
    )
    await certs(cluster)
    after = (
        await cluster.client.get(SECRETS, _SECRET, namespace=SYSTEM),
        await trusted_authorities(cluster),
    )
    assert after == before


async def test_admission_starts_while_its_failing_webhook_refuses_other_pods(case: Case) -> None:
    """With the failure policy Fail no other pods can be created while the webhook is down."""
    cluster = case.cluster
    async with cluster.installation.with_arguments(ADMISSION, "--webhook-failure-policy-fail"):

        async def refusing() -> bool:
            hooks = await cluster.client.get(MUTATING_WEBHOOKS, ca_bundle.CONFIGURATION_NAME)
            return all(each["failurePolicy"] == "Fail" for each in hooks["webhooks"])

        await cluster.wait_for(refusing, "the failure policy Fail")
        await cluster.installation.scale(ADMISSION, 0)
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
        await cluster.installation.scale(ADMISSION, 1)
