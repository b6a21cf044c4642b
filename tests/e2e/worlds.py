"""Our manifests installed in a cluster; in the sandbox also in clusters of older versions.

Those stand beside the first one, so what listens on a port of this machine needs another one.
"""

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from component import free_port
from e2e.clusters import SANDBOX, Kept, running
from e2e.installation import ADMISSION, METRICS_SERVER, OVERLAY, SYSTEM, Installation
from e2e.kubectl import Kubectl
from e2e.world import Case, World, own_namespace

_ARGUMENT = "/spec/template/spec/containers/0/args/-"
_PROBE = "/spec/template/spec/containers/0/readinessProbe/tcpSocket/port"


@asynccontextmanager
async def installed(kind: str, folder: Path, *, version: str = "") -> AsyncIterator[World]:
    """A cluster with our components in it, which are ready.

    ``version`` is one that the sandbox can be asked for; without one a cluster is what it is.
    """
    async with running(kind, folder / "cluster", version) as cluster:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(cluster.kubeconfig)
        kubectl = Kubectl(kubeconfig)
        overlay = _on_other_ports(folder / "overlay") if version else OVERLAY
        async with cluster.client("e2e") as client:
            made = World(kind, cluster, client, kubectl, Installation(kubectl, overlay))
            try:
                await made.installation.install()
            except BaseException:
                print(await made.describe("default"))  # noqa: T201 - shown when a test fails
                raise
            yield made


def _on_other_ports(folder: Path) -> Path:
    """The overlay, for a cluster whose webhook and metrics server are not alone here."""
    webhook, metrics = free_port(), free_port()
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "vpa-webhook", "namespace": SYSTEM},
        "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": webhook}]}],
    }
    patches = [
        _patch(
            "Service",
            "vpa-webhook",
            {"op": "replace", "path": "/spec/type", "value": "ClusterIP"},
            {"op": "remove", "path": "/spec/externalName"},
        ),
        _patch(
            "Deployment",
            ADMISSION,
            {"op": "add", "path": _ARGUMENT, "value": f"--port={webhook}"},
        ),
        _patch(
            "Deployment",
            METRICS_SERVER,
            {"op": "add", "path": _ARGUMENT, "value": f"--secure-port={metrics}"},
            {"op": "replace", "path": _PROBE, "value": metrics},
        ),
        _patch(
            "APIService",
            "v1beta1.metrics.k8s.io",
            {"op": "replace", "path": "/spec/service/port", "value": metrics},
        ),
    ]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(OVERLAY, folder.resolve()), "endpoints.yaml"],
        "patches": patches,
    }
    folder.mkdir()
    (folder / "endpoints.yaml").write_text(yaml.safe_dump(endpoints))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def _patch(kind: str, name: str, *operations: dict[str, Any]) -> dict[str, Any]:
    return {"target": {"kind": kind, "name": name}, "patch": yaml.safe_dump(list(operations))}


class Worlds:
    """The cluster of the session, and those that cases on other versions ask for."""

    def __init__(self, first: World, new_folder: Callable[[str], Path]) -> None:
        self._first = first
        self._new_folder = new_folder
        self._others: dict[str, Kept[World]] = {}

    @asynccontextmanager
    async def case(self, item: pytest.Item) -> AsyncIterator[Case]:
        """A namespace for an item, in the cluster that it asks for."""
        mark = item.get_closest_marker("kubernetes")
        on_other = mark is not None and self._first.kind == SANDBOX
        world = await self._on(mark.args[0]) if mark is not None and on_other else self._first
        name = re.sub("[^a-z0-9]+", "-", item.name.removeprefix("test_").lower())
        async with own_namespace(world, f"{name[:50].strip('-')}-{os.urandom(3).hex()}") as made:
            yield made

    async def _on(self, version: str) -> World:
        if version not in self._others:
            folder = self._new_folder(f"kubernetes-{version}-")
            self._others[version] = Kept(lambda: installed(SANDBOX, folder, version=version))
        return await self._others[version].entered()

    async def leave_others(self) -> None:
        """End the clusters of other versions, which take their part of the machine."""
        while self._others:
            _, kept = self._others.popitem()
            await kept.leave()
