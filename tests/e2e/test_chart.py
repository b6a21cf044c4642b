"""The Helm chart on a real API server: what an upgrade, a rollback and the end of a release keep.

The release has a control plane of its own, whose kubelets only simulate the components. The case
writes what they would write.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import admission.registration
from admission.settings import AdmissionSettings
from common.flags import read_flags
from controlplane.cluster import running_control_plane
from e2e.installation import SYSTEM
from e2e.kubectl import Kubectl, run_command
from helm_program import CHART, HELM, NEEDS_HELM
from sandbox.scenario import parse_scenario

pytestmark = NEEDS_HELM

RELEASE = ("vpa", str(CHART))
LEASES = ("vpa-admission-controller", "vpa-recommender-lease", "vpa-updater")
CRD = "customresourcedefinition/verticalpodautoscalers.autoscaling.k8s.io"
SECRET, HOOK = "secret/vpa-tls-certs", "mutatingwebhookconfiguration/vpa-webhook-config"
DATA = {"caKey.pem": "YQ==", "serverKey.pem": "Yg=="}
VPA = {
    "apiVersion": "autoscaling.k8s.io/v1",
    "kind": "VerticalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}


class Release:
    """A release of the chart, and the fields that the components fill."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    async def helm(self, *words: str) -> str:
        """Run Helm; fail with its output if it fails."""
        scope = (f"--kubeconfig={self.kubectl.kubeconfig}", f"--namespace={SYSTEM}")
        code, printed = await run_command(str(HELM), *words, *scope, seconds=120)
        assert code == 0, printed
        return printed

    async def get(self, target: str) -> dict[str, Any]:
        text = await self.kubectl("get", target, "--output=json", namespace=SYSTEM)
        return dict(json.loads(text))

    async def filled(self) -> Mapping[str, Any]:
        """Return what the components wrote."""
        leases = {name: await self.get(f"lease/{name}") for name in LEASES}
        return {
            "data": (await self.get(SECRET)).get("data"),
            "webhooks": (await self.get(HOOK)).get("webhooks"),
            **{name: lease.get("spec") for name, lease in leases.items()},
        }

    async def fill(self) -> None:
        """Write as the components do."""
        await self._merge(SECRET, {"data": DATA})
        flags = read_flags(AdmissionSettings, [], program="vpa-admission-controller", environ={})
        chosen = admission.registration.of_settings(flags, namespace=SYSTEM)
        hook = admission.registration.configuration(chosen, b"")
        await self._merge(HOOK, {"webhooks": hook["webhooks"]})
        for name in LEASES:
            await self._merge(f"lease/{name}", {"spec": {"holderIdentity": "pod-a"}})

    async def create_vpa(self, folder: Path) -> None:
        manifest = folder / "vpa.json"
        manifest.write_text(json.dumps(VPA), encoding="utf-8")
        await self.kubectl("create", f"--filename={manifest}")

    async def objects(self) -> set[str]:
        """Return the names of all objects with the label of the release."""
        kinds = "all,secrets,leases,sa,roles,rolebindings,clusterroles,clusterrolebindings,pdb,crds"
        label = "--selector=app.kubernetes.io/instance=vpa"
        kinds += ",mutatingwebhookconfigurations"
        printed = await self.kubectl("get", kinds, label, "--output=name", namespace=SYSTEM)
        return set(printed.split())

    async def _merge(self, target: str, patch: Mapping[str, Any]) -> None:
        await self.kubectl(
            *("patch", target, "--type=merge", f"--patch={json.dumps(patch)}"), namespace=SYSTEM
        )


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Release]:
    scenario = parse_scenario("nodes: [{count: 1}]")
    async with running_control_plane(
        scenario, folder=folder / "controlplane", metrics=False
    ) as control_plane:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(control_plane.kubeconfig, encoding="utf-8")
        yield Release(Kubectl(kubeconfig))


async def test_a_release_keeps_what_components_wrote_and_all_vpas(tmp_path: Path) -> None:
    async with cluster(tmp_path) as release:
        await release.helm("install", *RELEASE)
        await release.fill()
        await release.create_vpa(tmp_path)
        filled, objects = await release.filled(), await release.objects()
        assert filled["data"] == DATA
        assert filled["webhooks"]

        await release.helm("upgrade", *RELEASE, "--set=labels.team=platform,image.tag=0.2.0")
        for changed in (SECRET, CRD):
            assert (await release.get(changed))["metadata"]["labels"]["team"] == "platform"
        assert await release.filled() == filled

        await release.helm("rollback", "vpa", "1")
        assert "team" not in (await release.get(SECRET))["metadata"]["labels"]
        assert await release.filled() == filled

        await release.helm("uninstall", "vpa", "--wait")
        kept = {name for name in objects if name.startswith("customresourcedefinition")}
        assert len(kept) == 2
        assert await release.objects() == kept

        await release.helm("install", *RELEASE)
        assert await release.objects() == objects
        assert "web" in await release.kubectl("get", "vpa", namespace="default")
