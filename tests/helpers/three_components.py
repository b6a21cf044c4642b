"""The three programs as tasks of the test's event loop, with a sandbox cluster in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY

import admission.run
import recommender.__main__
import updater.__main__
from admission.settings import AdmissionSettings
from certificates import new_bundle
from certs.certificate_stores import Directory
from common.errors import NotFoundError
from common.kube.client import KubeClient
from common.kube.endpoints import MUTATING_WEBHOOKS
from common.runtime.clock import SystemClock
from component import LOOPBACK, http_get
from demo.processes import free_port
from recommender.settings import RecommenderSettings
from sandbox.cluster import Cluster
from sandbox.virtual_time import VirtualClock
from updater.settings import UpdaterSettings

NAMES = ("recommender", "updater", "admission")
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Component:
    """One of the programs."""

    name: str
    task: asyncio.Task[None]
    ops: int  # port of the ops address

    async def get(self, path: str) -> tuple[int, str]:
        """Return HTTP status and body of a response of the ops address."""
        return await http_get(self.ops, path)


@asynccontextmanager
async def components(
    cluster: Cluster,
    clock: VirtualClock,
    folder: Path,
    *,
    names: Collection[str] = NAMES,
    recommender_settings: Mapping[str, Any] = _NONE,
    updater_settings: Mapping[str, Any] = _NONE,
    admission_settings: Mapping[str, Any] = _NONE,
) -> AsyncIterator[tuple[Component, ...]]:
    """Run the components with these names.

    The given settings replace the defaults of the flags.
    """
    # Also valid by the simulated clock, which differs by up to a day from the computer's.
    bundle = new_bundle(valid_from=SystemClock().now() - timedelta(days=1), days=3)
    await Directory(folder).save(bundle)
    kubeconfig, port = folder / "kubeconfig", free_port()
    kubeconfig.write_text(cluster.kubeconfig)
    ports = {name: free_port() for name in NAMES}

    def common(name: str) -> dict[str, Any]:
        return {"kubeconfig": str(kubeconfig), "address": f"{LOOPBACK}:{ports[name]}"}

    webhook = AdmissionSettings(
        **common("admission"),
        port=port,
        register_by_url=True,
        webhook_address=f"https://{LOOPBACK}",
        webhook_port=str(port),
        tls_cert_file=str(folder / "serverCert.pem"),
        tls_private_key=str(folder / "serverKey.pem"),
        client_ca_file=str(folder / "caCert.pem"),
        **admission_settings,
    )
    learning = RecommenderSettings(**common("recommender"), **recommender_settings)
    updating = UpdaterSettings(**common("updater"), **updater_settings)
    programs: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = {
        "recommender": lambda: recommender.__main__.recommend(learning, clock),
        "updater": lambda: updater.__main__.serve(updating, clock, environ={}),
        "admission": lambda: admission.run.serve(webhook, clock, namespace="kube-system"),
    }
    with _own_metrics():
        async with asyncio.TaskGroup() as group:
            started = tuple(
                Component(name, group.create_task(programs[name]()), ports[name]) for name in names
            )
            yield started
            for one in started:
                one.task.cancel()


@contextmanager
def _own_metrics() -> Iterator[None]:
    """Remove the metrics that the updater registered in the library's default registry.

    A program registers them once per process; tests start it several times.
    """
    there = set(REGISTRY._collector_to_names)  # there is no public API
    try:
        yield
    finally:
        for collector in set(REGISTRY._collector_to_names) - there:
            REGISTRY.unregister(collector)


async def registered(client: KubeClient) -> None:
    """Wait for the webhook's registration; pods that are created before are not patched."""
    while True:
        try:
            await client.get(MUTATING_WEBHOOKS, "vpa-webhook-config")
        except NotFoundError:
            await asyncio.sleep(1)
        else:
            return
