"""Provisioners of capacity with the default limits."""

from collections.abc import Collection

from prometheus_client import CollectorRegistry

from common.kube.client import KubeClient
from common.runtime.clock import Clock
from common.runtime.object_errors import ObjectErrors
from updater.capacity.provisioner import Provisioner
from updater.capacity.provisioning_state import ProvisioningLimits
from updater.capacity.request_client import RequestClient
from updater.snapshot.caches import Caches


def provisioner_of(
    client: KubeClient,
    caches: Caches,
    clock: Clock,
    *,
    writer: KubeClient | None = None,
    ignored: Collection[str] = (),
    asks: bool = True,
) -> Provisioner:
    """Return a provisioner of all namespaces but the ignored ones, without state."""
    limits = ProvisioningLimits()
    objects = RequestClient(
        client, writer or client, namespace="", timeout=limits.timeout, ignored=ignored
    )
    return Provisioner(
        objects,
        pods=caches.pods,
        controllers=caches.controllers,
        clock=clock,
        limits=limits,
        errors=ObjectErrors("updater", CollectorRegistry()),
        asks=asks,
    )
