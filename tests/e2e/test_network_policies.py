"""The NetworkPolicies of the manifests, judged as the API server stores them.

No network plug-in enforces policies here: pods are processes of this machine, and anything on it
reaches them. So the policies are evaluated by the rules of the API, against the labels and named
ports of the stored pods, and against the sockets on which their processes really listen.
"""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest_asyncio
import yaml

import admission.settings
import recommender.settings
import updater.settings
from common.api.meta import LabelSelector
from common.flags import read_flags
from common.kube.endpoints import NAMESPACES, PODS, Endpoint
from common.labels import from_label_selector
from e2e.installation import (
    ADMISSION,
    CERTIFICATES,
    COMPONENTS,
    DEPLOY,
    RECOMMENDER,
    SYSTEM,
    UPDATER,
    Installation,
)
from e2e.pods import Object
from e2e.processes import listening
from e2e.world import Case, World

_OVERLAY = Path(__file__).parent / "network_policies_overlay"
_COMPONENT = DEPLOY / "components" / "network-policies"
_LABEL = {"vpa-metrics": "allowed"}
_POLICIES: Endpoint[Object] = Endpoint(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", dict[str, Any]
)


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    return from_label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)


def _lets_in(policies: list[Object], pod: Object, caller: Mapping[str, str]) -> set[int]:
    """Ports of a pod that a pod of another namespace, with these labels, may connect to.

    Source: ``NetworkPolicySpec``, k8s.io/api/networking/v1/types.go.
    """
    labels = pod["metadata"]["labels"]
    chosen = [p["spec"] for p in policies if _selects(p["spec"]["podSelector"], labels)]
    assert chosen, f"nothing restricts {labels}"
    assert all(spec["policyTypes"] == ["Ingress"] for spec in chosen)
    return {
        _number(pod, port)
        for spec in chosen
        for rule in spec.get("ingress", ())
        if "from" not in rule or any(_is_caller(peer, caller) for peer in rule["from"])
        for port in rule["ports"]
    }


def _is_caller(peer: Object, caller: Mapping[str, str]) -> bool:
    assert peer.keys() == {"namespaceSelector"}, "no other kind of peer is evaluated here"
    return _selects(peer["namespaceSelector"], caller)


def _number(pod: Object, port: Object) -> int:
    """The port of a pod that a rule means by its name."""
    assert (port["protocol"], "endPort" in port) == ("TCP", False)
    return {name: number for number, name in _declared(pod).items()}[port["port"]]


def _declared(pod: Object) -> dict[int, str]:
    (container,) = pod["spec"]["containers"]
    return {port["containerPort"]: port["name"] for port in container.get("ports", ())}


def _templates(manifests: list[Object]) -> dict[str, Object]:
    """The pods of all workloads, by the name of the workload."""
    return {
        item["metadata"]["name"]: item["spec"].get("jobTemplate", item)["spec"]["template"]
        for item in manifests
        if item["kind"] in ("Deployment", "CronJob")
    }


def _served(name: str, pod: Object) -> set[int]:
    """Ports on which a component listens, by the flags of its pod."""
    (container,) = pod["spec"]["containers"]
    args = container.get("args", ())
    if name == ADMISSION:
        flags = read_flags(admission.settings.AdmissionSettings, args, program=name, environ={})
        return {flags.port, _port(flags.address)}
    if name == RECOMMENDER:
        return {
            _port(
                read_flags(
                    recommender.settings.RecommenderSettings, args, program=name, environ={}
                ).address
            )
        }
    if name == UPDATER:
        return {
            _port(
                read_flags(updater.settings.UpdaterSettings, args, program=name, environ={}).address
            )
        }
    return set()  # certs ends when it has done its work


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def policies(world: World) -> AsyncIterator[list[Object]]:
    """The manifests are installed with the component; its policies as they are stored."""
    kubectl = world.kubectl
    try:
        await Installation(kubectl, _OVERLAY).apply()
        found = json.loads(await kubectl("get", "networkpolicy", "-o", "json", namespace=SYSTEM))
        yield found["items"]
    finally:
        await kubectl("delete", "networkpolicy", "--all", namespace=SYSTEM)


async def test_the_api_server_stores_the_policies_as_they_are_written(
    world: World, policies: list[Object]
) -> None:
    written = {
        item["metadata"]["name"]: item["spec"]
        for item in yaml.safe_load_all(await world.kubectl("kustomize", str(_OVERLAY)))
        if item["kind"] == "NetworkPolicy"
    }
    assert {item["metadata"]["name"]: item["spec"] for item in policies} == written
    again = await Installation(world.kubectl, _OVERLAY).apply()
    assert [line for line in again if not line.endswith(" unchanged")] == []


async def test_each_port_of_a_component_is_let_in_to_and_no_other(
    case: Case, policies: list[Object]
) -> None:
    """The namespace of the case is labelled as docs/operations.md says; before, it isn't."""
    world = case.world
    before = await world.client.get(NAMESPACES.as_dicts(), case.namespace)
    await world.kubectl("label", "namespace", case.namespace, "vpa-metrics=allowed")
    after = await world.client.get(NAMESPACES.as_dicts(), case.namespace)
    for name in COMPONENTS:
        (pod,) = await world.component_pods(name)
        listens = listening(pod["metadata"]["uid"])
        assert listens == set(_declared(pod))
        assert _lets_in(policies, pod, after["metadata"]["labels"]) == listens
        webhook = {port for port, called in _declared(pod).items() if called == "webhook"}
        assert _lets_in(policies, pod, before["metadata"]["labels"]) == webhook
        print(f"{name}: ports {sorted(listens)}, for everybody {sorted(webhook)}")  # noqa: T201 - figures for who runs this


async def test_each_policy_selects_the_pods_of_its_components_and_no_others(
    world: World, policies: list[Object]
) -> None:
    """Of all pods in kube-system; the API server evaluates the selectors."""
    selected = {}
    for policy in policies:
        selector = from_label_selector(
            msgspec.convert(policy["spec"]["podSelector"], LabelSelector)
        )
        found = await world.client.list(
            PODS.as_dicts(), namespace=SYSTEM, label_selector=str(selector)
        )
        # Jobs of other cases may have left pods of certs.
        apps = {pod["metadata"]["labels"]["app"] for pod in found.items} - {CERTIFICATES}
        selected[policy["metadata"]["name"]] = apps
    assert selected == {
        "vpa-ops": {RECOMMENDER, UPDATER, ADMISSION},
        "vpa-webhook": {ADMISSION},
        "vpa-certs": set(),
    }


async def test_the_manifests_as_they_are_shipped_say_the_same(world: World) -> None:
    """Without the overlay's ports, and with the CronJob's pod, which accepts no calls."""
    manifests = list(yaml.safe_load_all(await world.kubectl("kustomize", str(DEPLOY))))
    policies = list(yaml.safe_load_all(await world.kubectl("kustomize", str(_COMPONENT))))
    pods = _templates(manifests)
    assert pods.keys() == {*COMPONENTS, CERTIFICATES}
    for name, pod in pods.items():
        assert _served(name, pod) == set(_declared(pod))
        assert _lets_in(policies, pod, _LABEL) == _served(name, pod)
        assert _lets_in(policies, pod, {}) == ({8000} if name == ADMISSION else set())
        chosen = {
            policy["metadata"]["name"]
            for policy in policies
            if _selects(policy["spec"]["podSelector"], pod["metadata"]["labels"])
        }
        assert (
            chosen
            == {
                RECOMMENDER: {"vpa-ops"},
                UPDATER: {"vpa-ops"},
                ADMISSION: {"vpa-ops", "vpa-webhook"},
                CERTIFICATES: {"vpa-certs"},
            }[name]
        )
