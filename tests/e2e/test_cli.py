"""``kubectl vpa`` on the real control plane with our components installed."""

import base64
import contextlib
from datetime import timedelta
from pathlib import Path

import pytest

from certs.authority import create, rsa_key
from cli_program import run_cli
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.client import PatchType
from common.kube.endpoints import HPAS, MUTATING_WEBHOOKS, PODS
from common.runtime.clock import SystemClock
from e2e.accounts import VPA_RESOURCE, account, kubeconfig_of, three_accounts
from e2e.cluster import OTHER_RECOMMENDER, Case
from e2e.installation import ADMISSION, COMPONENTS, OPS_PORTS, RECOMMENDER, SYSTEM, UPDATER
from e2e.pods import LARGE, hpa
from e2e.relayed_components import create_pod_with, other_address, relay
from kubectl_vpa.cluster.installation import SERVICES

_LIFETIME = timedelta(days=100)
_SMALL = {"cpu": "100m", "memory": "256Mi"}


async def _findings(case: Case, *arguments: str) -> tuple[int, set[tuple[str, str]]]:
    """Return the exit code, and severity and check of each finding that is not ok."""
    kubeconfig = case.cluster.kubectl.kubeconfig
    printed = await run_cli(kubeconfig, "doctor", "-n", case.namespace, "-o", "json", *arguments)
    assert printed.code in (0, 1, 3), printed.err
    return printed.code, {
        (each["severity"], each["check"]) for each in printed.items if each["severity"] != "ok"
    }


async def _healthy(case: Case) -> None:
    """Deploy a workload whose VPA has a recommendation."""
    await case.deploy("web", requests=LARGE)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)


async def test_the_doctor_finds_nothing_in_a_healthy_installation(case: Case) -> None:
    await _healthy(case)
    assert await _findings(case) == (0, set())


async def test_the_doctor_finds_what_is_broken(case: Case) -> None:
    await _healthy(case)
    installation = case.cluster.installation
    async with installation.scaled_to_zero(UPDATER):
        code, found = await _findings(case)
        assert code == 1
        assert ("error", "components") in found
    async with installation.scaled_to_zero(ADMISSION):
        code, found = await _findings(case)
        assert code == 1
        assert {("error", "components"), ("error", "dry-run")} <= found


@pytest.mark.parametrize(
    ("binding", "denied"),
    [
        ("system:metrics-reader", {RECOMMENDER: "list pods.metrics.k8s.io"}),
        (
            "system:vpa-status-actor",
            {RECOMMENDER: "patch verticalpodautoscalers.autoscaling.k8s.io/status"},
        ),
        ("system:vpa-evictioner-binding", {UPDATER: "create pods/eviction"}),
        (
            "system:vpa-target-reader-binding",
            dict.fromkeys(COMPONENTS, "list deployments.apps, list replicasets.apps"),
        ),
    ],
)
async def test_the_doctor_names_the_permissions_that_an_account_lacks(
    case: Case, binding: str, denied: dict[str, str]
) -> None:
    await _healthy(case)
    kubectl = case.cluster.kubectl
    await kubectl("delete", "clusterrolebinding", binding)
    try:
        printed = await run_cli(kubectl.kubeconfig, "doctor", "-n", case.namespace, "-o", "json")
    finally:
        await case.cluster.installation.restore()
    found = {
        each["about"].rpartition(":")[2]: each["message"]
        for each in printed.items
        if each["check"] == "rbac"
    }
    assert found.keys() == denied.keys()
    for name, permissions in denied.items():
        for permission in permissions.split(", "):
            assert permission in found[name]
    assert printed.code == 1


_NO_SERVICE = "Service kube-system/vpa-webhook doesn't exist"
_NO_PODS = "Service kube-system/vpa-webhook has no ready pod"


@pytest.mark.parametrize(
    ("selector", "message"),
    [pytest.param(None, _NO_SERVICE, id="deleted"), pytest.param("none", _NO_PODS, id="no pods")],
)
async def test_the_doctor_finds_a_webhook_without_a_service_or_pods(
    case: Case, selector: str | None, message: str
) -> None:
    await _healthy(case)
    kubectl = case.cluster.kubectl
    await kubectl("delete", "service", "vpa-webhook", namespace=SYSTEM)
    try:
        if selector is not None:
            spec = {"selector": {"app": selector}, "ports": [{"port": 443}]}
            service = {"metadata": {"name": "vpa-webhook"}, "spec": spec}
            await case.cluster.client.create(SERVICES, service, namespace=SYSTEM)
        printed = await run_cli(kubectl.kubeconfig, "doctor", "-n", case.namespace, "-o", "json")
    finally:
        await kubectl("delete", "service", "vpa-webhook", "--ignore-not-found", namespace=SYSTEM)
        await case.cluster.installation.restore()
    found = {
        each["check"]: each["message"] for each in printed.items if each["severity"] == "error"
    }
    assert found["webhook"] == message
    assert found.keys() <= {"webhook", "dry-run"}  # the API server may keep its connection


async def test_the_doctor_finds_a_ca_that_did_not_sign_the_certificate(case: Case) -> None:
    """Our admission repairs this when it runs."""
    await _healthy(case)
    made = create(["localhost"], make_key=rsa_key, now=SystemClock().now(), lifetime=_LIFETIME)
    bundle = base64.b64encode(made.authority.certificate).decode()
    replaced = {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}
    async with case.cluster.installation.scaled_to_zero(ADMISSION):
        await case.cluster.client.patch(
            MUTATING_WEBHOOKS, CONFIGURATION_NAME, [replaced], patch_type=PatchType.JSON
        )
        kubeconfig = case.cluster.kubectl.kubeconfig
        printed = await run_cli(kubeconfig, "doctor", "-n", case.namespace, "-o", "json")
    found = {each["check"]: each for each in printed.items if each["severity"] == "error"}
    assert found.keys() == {"certificates", "components", "dry-run"}
    assert found["certificates"]["about"] == "Secret kube-system/vpa-tls-certs"
    assert found["certificates"]["message"].startswith("the CA in vpa-webhook-config didn't sign")


@pytest.mark.concurrent
async def test_the_doctor_finds_an_hpa(case: Case) -> None:
    await _healthy(case)
    await case.create(HPAS, hpa("web"))
    assert await _findings(case) == (3, {("warning", "hpa")})


@pytest.mark.concurrent
async def test_status_and_an_hpa(case: Case) -> None:
    await case.deploy("web", requests=LARGE)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    kubeconfig = case.cluster.kubectl.kubeconfig
    status = ("status", "-n", case.namespace, "-o", "json")
    printed = await run_cli(kubeconfig, *status)
    (web,) = printed.items
    assert (web["state"], web["reason"], web["podsDue"]) == ("waiting", "next_pod", 2)
    assert (web["cpu"]["request"], web["cpu"]["target"]) == (LARGE["cpu"], "100m")
    # The components listen on loopback, to which API servers don't forward.
    assert [each for each in printed.json["notes"] if "address not allowed" not in each] == []
    await case.create(HPAS, hpa("web"))
    (web,) = (await run_cli(kubeconfig, *status)).items
    assert (web["state"], web["reason"]) == ("conflicting", "autoscaled_horizontally")


@pytest.mark.concurrent
async def test_an_export_is_accepted_by_the_api_server(case: Case) -> None:
    await case.deploy("web", requests=LARGE)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Off", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    kubectl = case.cluster.kubectl
    file = kubectl.kubeconfig.with_name(f"{case.namespace}-export.yaml")
    for arguments, kind in (((), "verticalpodautoscaler"), (("--as", "patch"), "deployment")):
        printed = await run_cli(kubectl.kubeconfig, "export", "-n", case.namespace, *arguments)
        assert printed.code == 0, printed.err
        file.write_text(printed.out)
        words = ("apply", "--dry-run=server", "--server-side", "--force-conflicts", "-f", str(file))
        assert f"{kind}." in await kubectl(*words)


async def _kubeconfig_of(case: Case, name: str, *resources: str) -> Path:
    """Create an account that may list resources in the namespace; return its kubeconfig."""
    token = await account(case, name)
    for words in (
        ("create", "role", name, "--verb=list", f"--resource={','.join(resources)}"),
        (
            *("create", "rolebinding", name, f"--role={name}"),
            f"--serviceaccount={case.namespace}:{name}",
        ),
    ):
        await case.cluster.kubectl(*words, namespace=case.namespace)
    return kubeconfig_of(case, name, token)


@pytest.mark.concurrent
async def test_a_person_sees_what_his_rights_allow_and_a_note_about_the_rest(case: Case) -> None:
    await case.deploy("web", requests=LARGE)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    blind = await _kubeconfig_of(case, "blind", VPA_RESOURCE)
    printed = await run_cli(blind, "status", "-n", case.namespace, "-o", "json")
    (web,) = printed.items
    assert (web["reason"], web["cpu"]["target"], web["pods"]) == ("pods_not_seen", "100m", None)
    assert f"pods in {case.namespace}: you may not list them" in printed.json["notes"]
    sighted = await _kubeconfig_of(case, "sighted", VPA_RESOURCE, "pods", "replicasets.apps")
    printed = await run_cli(sighted, "status", "-n", case.namespace, "-o", "json")
    (web,) = printed.items
    assert (web["reason"], web["pods"]) == ("next_pod", 2)
    assert f"pods in {case.namespace}: you may not list them" not in printed.json["notes"]
    everywhere = await run_cli(sighted, "status", "-A")
    assert (everywhere.code, everywhere.out) == (1, "")
    assert "cannot list resource" in everywhere.err
    doctor = await run_cli(sighted, "doctor", "-n", case.namespace, "-o", "json")
    assert doctor.code == 0, doctor.out + doctor.err
    skipped = {each["check"] for each in doctor.items if each["severity"] == "skipped"}
    assert {"components", "rbac", "webhook", "dry-run", "metrics", "checkpoints"} <= skipped
    why = await run_cli(sighted, "why", "deployment/web", "-n", case.namespace)
    assert why.out.startswith(f"Deployment {case.namespace}/web: waiting\n")
    assert f"not seen: events in {case.namespace}: you may not list them" in why.err


async def test_a_person_with_the_right_reads_the_updaters_plan(case: Case) -> None:
    cluster, namespace, port = case.cluster, case.namespace, OPS_PORTS[UPDATER]
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.wait_until_measured("web", 1)
    await case.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    person = await _kubeconfig_of(case, "person", VPA_RESOURCE, "pods", "replicasets.apps")
    bound = f"--serviceaccount={namespace}:person"

    async def plan() -> tuple[str, list[str], list[str]]:
        """Return source, notes and reasons of the plan."""
        printed = await run_cli(person, "plan", "web", "-n", namespace, "-o", "json")
        reasons = [each["reason"] for each in printed.items]
        return printed.json["source"], printed.json["notes"], reasons

    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(other_address())
        (pod,) = await cluster.component_pods(UPDATER)
        # From loopback the updater answers without knowing the address of the API server.
        await stack.enter_async_context(
            relay(address, pod["status"]["podIP"], port, source="127.0.0.1")
        )
        await create_pod_with(cluster, SYSTEM, "relay", address, app=UPDATER)
        stack.push_async_callback(
            cluster.client.delete, PODS, "relay", namespace=SYSTEM, grace_period_seconds=0
        )
        about = "what the components know: you may not"
        source, notes, reasons = await plan()
        assert (source, reasons) == ("derived", ["below_min_replicas"])
        assert f"{about} list pods in all namespaces" in notes
        role = f"{namespace}-pods"
        await cluster.kubectl("create", "clusterrole", role, "--verb=list", "--resource=pods")
        words = ("clusterrolebinding", role, f"--clusterrole={role}", bound)
        await cluster.kubectl("create", *words)
        for kind in ("clusterrole", "clusterrolebinding"):
            stack.push_async_callback(cluster.kubectl, "delete", kind, role)
        source, notes, _ = await plan()
        assert source == "derived"
        assert f"{about} get pods/proxy in {SYSTEM}" in notes
        role = f"{namespace}-proxy"
        words = ("role", role, "--verb=get", "--resource=pods/proxy")
        await cluster.kubectl("create", *words, namespace=SYSTEM)
        words = ("rolebinding", role, f"--role={role}", bound)
        await cluster.kubectl("create", *words, namespace=SYSTEM)
        for kind in ("role", "rolebinding"):
            stack.push_async_callback(cluster.kubectl, "delete", kind, role, namespace=SYSTEM)

        async def answered() -> bool:
            return (await plan()) == ("updater", [], ["below_min_replicas"])

        await cluster.wait_for(answered, "the plan is that of the updater")


async def test_each_person_sees_the_namespaces_in_which_he_may_list_vpas(case: Case) -> None:
    cluster, mine, other = case.cluster, case.namespace, f"{case.namespace}-other"
    await cluster.kubectl("create", "namespace", other)
    neighbour = Case(cluster, other)
    checkpoints = "verticalpodautoscalercheckpoints.autoscaling.k8s.io"
    readable = (VPA_RESOURCE, checkpoints, "pods", "replicasets.apps", "deployments.apps")
    try:
        for each in (case, neighbour):
            await each.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
            await each.set_recommendation("web", app=_SMALL)
        async with three_accounts(case, verb="get,list", resources=readable) as tokens:
            files = {name: kubeconfig_of(case, name, token) for name, token in tokens.items()}
            everywhere = await run_cli(files["all"], "status", "-A", "-o", "json")
            assert {mine, other} <= {each["namespace"] for each in everywhere.items}
            for name, namespace, code in (
                ("all", other, 0),
                ("one", mine, 0),
                ("one", other, 1),
                ("none", mine, 1),
            ):
                for words in (("status",), ("why", "vpa/web"), ("export",)):
                    printed = await run_cli(files[name], *words, "-n", namespace)
                    seen = (name, namespace, words, printed.out, printed.err)
                    assert printed.code == code, seen
                    if code:
                        assert printed.out == "", seen
                        assert 'cannot list resource "verticalpodautoscalers"' in printed.err, seen
                    assert tokens[name] not in printed.out + printed.err
            for name in ("one", "none"):
                printed = await run_cli(files[name], "status", "-A")
                assert (printed.code, printed.out) == (1, "")
                assert other not in printed.err
    finally:
        await cluster.kubectl("delete", "namespace", other, "--wait=false")
