"""``kubectl vpa`` on the real control plane with our components installed."""

import contextlib
from pathlib import Path

import pytest
import yaml

from cli_program import run_cli
from common.kube.endpoints import HPAS, PODS
from e2e.cluster import OTHER_RECOMMENDER, Case
from e2e.installation import ADMISSION, OPS_PORTS, SYSTEM, UPDATER
from e2e.pods import LARGE, hpa
from e2e.relayed_components import create_pod_with, other_address, relay

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
        assert f"{kind}.".encode() in (await kubectl(*words)).encode()


async def _kubeconfig_of(case: Case, account: str, *resources: str) -> Path:
    """Create an account that may list resources in the namespace; return its kubeconfig."""
    kubectl = case.cluster.kubectl
    for words in (
        ("create", "serviceaccount", account),
        ("create", "role", account, "--verb=list", f"--resource={','.join(resources)}"),
        (
            *("create", "rolebinding", account, f"--role={account}"),
            f"--serviceaccount={case.namespace}:{account}",
        ),
    ):
        await kubectl(*words, namespace=case.namespace)
    token = (await kubectl("create", "token", account, namespace=case.namespace)).strip()
    content = yaml.safe_load(kubectl.kubeconfig.read_text())
    content["users"] = [{**content["users"][0], "user": {"token": token}}]
    file = kubectl.kubeconfig.with_name(f"{case.namespace}-{account}")
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.mark.concurrent
async def test_a_person_sees_what_his_rights_allow_and_a_note_about_the_rest(case: Case) -> None:
    await case.deploy("web", requests=LARGE)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    vpas = "verticalpodautoscalers.autoscaling.k8s.io"
    blind = await _kubeconfig_of(case, "blind", vpas)
    printed = await run_cli(blind, "status", "-n", case.namespace, "-o", "json")
    (web,) = printed.items
    assert (web["reason"], web["cpu"]["target"], web["pods"]) == ("pods_not_seen", "100m", None)
    assert f"pods in {case.namespace}: you may not list them" in printed.json["notes"]
    sighted = await _kubeconfig_of(case, "sighted", vpas, "pods", "replicasets.apps")
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
    vpas = "verticalpodautoscalers.autoscaling.k8s.io"
    person = await _kubeconfig_of(case, "person", vpas, "pods", "replicasets.apps")
    account = f"--serviceaccount={namespace}:person"

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
        words = ("clusterrolebinding", role, f"--clusterrole={role}", account)
        await cluster.kubectl("create", *words)
        for kind in ("clusterrole", "clusterrolebinding"):
            stack.push_async_callback(cluster.kubectl, "delete", kind, role)
        source, notes, _ = await plan()
        assert source == "derived"
        assert f"{about} get pods/proxy in {SYSTEM}" in notes
        role = f"{namespace}-proxy"
        words = ("role", role, "--verb=get", "--resource=pods/proxy")
        await cluster.kubectl("create", *words, namespace=SYSTEM)
        words = ("rolebinding", role, f"--role={role}", account)
        await cluster.kubectl("create", *words, namespace=SYSTEM)
        for kind in ("role", "rolebinding"):
            stack.push_async_callback(cluster.kubectl, "delete", kind, role, namespace=SYSTEM)

        async def answered() -> bool:
            return (await plan()) == ("updater", [], ["below_min_replicas"])

        await cluster.wait_for(answered, "the plan is that of the updater")
