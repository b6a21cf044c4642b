"""kubectl's output when a VPA is refused, for every rule, with the sandbox and our webhook.

Skipped if kubectl is missing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from admission.registration import Registration, configuration
from admission.tls import KeyPair
from certificates import new_bundle, write_pair
from common.runtime.clock import SystemClock
from common.runtime.web_server import WebServer
from e2e.kubectl import Kubectl
from kubectl_program import needs_kubectl
from sandbox.apiserver.server import ApiServer, serve
from sandbox.objects.store import Store
from sandbox.version import KubernetesVersion
from sandbox_client import CRDS
from vpa_gate_rules import GATE_RULES
from vpa_rules import AUTO, GATES, RULES, TARGET, Case, container, update
from webhook_harness import Harness

pytestmark = needs_kubectl()

CREATED = [case for case in (*RULES, *GATE_RULES) if case.old is None]
BY_SCHEMA = "targetRef: name and kind are not checked"  # by us: the API server's schema does it
DENIED = 'admission webhook "vpa.k8s.io" denied the request: '


def vpa(name: str, spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@asynccontextmanager
async def sandbox(folder: Path, gates: str = "") -> AsyncIterator[Kubectl]:
    """Run a sandbox that calls our webhook for VPAs."""
    bundle = new_bundle()
    pair = KeyPair(*write_pair(folder, bundle.server))
    server = WebServer(
        Harness(gates=gates).app,
        "127.0.0.1:0",
        name="webhook",
        ssl_context_factory=lambda *_: pair.context,
    )
    url = f"https://127.0.0.1:{server.port}"
    hooks = folder / "hooks.json"
    registration = Registration(service="", namespace="", url=url, labels={})
    hooks.write_text(json.dumps(configuration(registration, bundle.authority.certificate)))
    kubectl = Kubectl(folder / "kubeconfig")
    async with (
        asyncio.TaskGroup() as group,
        serve(ApiServer(Store(), KubernetesVersion(), SystemClock())) as api,
    ):
        running = group.create_task(server.run())
        kubectl.kubeconfig.write_text(api.kubeconfig)
        await kubectl("apply", "-k", str(CRDS))
        await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=5s")
        await kubectl("create", "-f", str(hooks))
        yield kubectl
        running.cancel()


async def create_with_kubectl(kubectl: Kubectl, folder: Path, *objects: Any) -> list[str]:
    """Create objects with kubectl, refused ones included; return the lines of its output."""
    path = folder / "vpas.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    # The sandbox has no schema of a List to offer.
    _, output = await kubectl.run("create", "--validate=false", "-f", str(path))
    return output.splitlines()


def lines_of(output: Sequence[str], name: str) -> list[str]:
    """Return the lines about one VPA, without their common prefix."""
    lines = [line for line in output if f'"{name}"' in line or f"/{name} " in line]
    return [line.partition(DENIED)[2] or line for line in lines]


def wanted_lines(name: str, case: Case) -> str:
    if case.want is None:
        return f"verticalpodautoscaler.autoscaling.k8s.io/{name} created"
    _, field, message = case.want
    return f'VerticalPodAutoscaler.autoscaling.k8s.io "{name}" is invalid: {field}: {message}'


@pytest.mark.parametrize("gates", ["", GATES], ids=["gates off", "gates on"])
async def test_kubectl_shows_every_message(gates: str, tmp_path: Path) -> None:
    cases = {f"web-{n}": case for n, case in enumerate(CREATED) if case.gates == gates}
    async with sandbox(tmp_path, gates) as kubectl:
        vpas = (vpa(name, case.spec) for name, case in cases.items())
        output = await create_with_kubectl(kubectl, tmp_path, *vpas)
    for name, case in cases.items():
        if case.id != BY_SCHEMA:
            assert lines_of(output, name) == [wanted_lines(name, case)], case.id
    assert (f"Warning: {AUTO}" in output) == (not gates)


async def test_x113_a_bad_quantity_is_refused_with_the_references_message(tmp_path: Path) -> None:
    wrong = container(minAllowed={"requests": {"cpu": "50m"}})
    nothing = container(maxAllowed={"cpu": "much"})
    async with sandbox(tmp_path) as kubectl:
        output = await create_with_kubectl(
            kubectl, tmp_path, vpa("wrong", wrong), vpa("nothing", nothing)
        )
    sentence = (
        "is invalid: .: Internal error: quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )
    for name in ("wrong", "nothing"):
        assert lines_of(output, name) == [
            f'VerticalPodAutoscaler.autoscaling.k8s.io "{name}" {sentence}'
        ]
    first = "spec.resourcePolicy.containerPolicies[0]"
    assert f"Warning: {first}.minAllowed[requests]: {{}} is not a quantity" in output
    assert f'Warning: {first}.maxAllowed[cpu]: "much" is not a quantity' in output


async def test_a_value_of_another_type_is_refused_with_its_path(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as kubectl:
        output = await create_with_kubectl(
            kubectl, tmp_path, vpa("wrong", update(minReplicas="two"))
        )
    (typed,) = lines_of(output, "wrong")
    assert "Internal error: Expected `int | null`, got `str`" in typed
    assert "`$.spec.updatePolicy.minReplicas`" in typed


async def test_several_errors_are_reported_together(tmp_path: Path) -> None:
    spec = update(minReplicas=0) | container(mode="off")
    async with sandbox(tmp_path) as kubectl:
        output = await create_with_kubectl(kubectl, tmp_path, vpa("web", spec))
    assert output == [
        'The VerticalPodAutoscaler "web" is invalid: ',
        "* spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive",
        (
            '* spec.resourcePolicy.containerPolicies[0].mode: Unsupported value: "off": '
            'supported values: "Auto", "Off"'
        ),
    ]


async def test_a_vpa_gets_its_default_and_is_stored_with_it(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as kubectl:
        await create_with_kubectl(kubectl, tmp_path, vpa("web", TARGET))
        path = "jsonpath={.spec.updatePolicy}"
        assert await kubectl("get", "vpa", "web", "-o", path) == '{"updateMode":"Recreate"}'
        patch = json.dumps({"spec": {"updatePolicy": {"minReplicas": 0}}})
        code, output = await kubectl.run("patch", "vpa", "web", "--type=merge", "-p", patch)
        assert code == 1
        assert "minReplicas has to be positive" in output
