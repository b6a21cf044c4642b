"""The NetworkPolicies of the manifests, as the API server stores them.

No network plug-in enforces policies here, because pods are processes of this machine. The tests
evaluate the policies by the rules of the API, with the labels and named ports of the stored pods
and with the ports on which their processes listen.
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
from e2e.cluster import Case, Cluster
from e2e.installation import (
    ADMISSION,
    COMPONENTS,
    DEPLOY,
    RECOMMENDER,
    SYSTEM,
    UPDATER,
    Installation,
)
from e2e.pods import Object
from e2e.processes import listening_ports

_OVERLAY = Path(__file__).parent / "network_policy_overlay"
_COMPONENT = DEPLOY / "components" / "network-policy"
_LABEL = {"vpa-metrics": "allowed"}
_POLICIES: Endpoint[Object] = Endpoint(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", dict[str, Any]
)


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    return from_label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)


def _allowed_ports(policies: list[Object], pod: Object, caller: Mapping[str, str]) -> set[int]:
    """Return the ports of a pod to which pods of another namespace, with labels, may connect.

    Source: ``NetworkPolicySpec``, k8s.io/api/networking/v1/types.go.
    """
    labels = pod["metadata"]["labels"]
    selecting = [p["spec"] for p in policies if _selects(p["spec"]["podSelector"], labels)]
    assert selecting, f"nothing restricts {labels}"
    assert all(spec["policyTypes"] == ["Ingress"] for spec in selecting)
    return {
        _port_number(pod, port)
        for spec in selecting
        for rule in spec.get("ingress", ())
        if "from" not in rule or any(_matches(peer, caller) for peer in rule["from"])
        for port in rule["ports"]
    }


def _matches(peer: Object, caller: Mapping[str, str]) -> bool:
    assert peer.keys() == {"namespaceSelector"}, "no other kind of peer is evaluated here"
    return _selects(peer["namespaceSelector"], caller)


def _port_number(pod: Object, port: Object) -> int:
    """Return the port of a pod that a rule selects by its name."""
    assert (port["protocol"], "endPort" in port) == ("TCP", False)
    return {name: number for number, name in _declared_ports(pod).items()}[port["port"]]


def _declared_ports(pod: Object) -> dict[int, str]:
    (container,) = pod["spec"]["containers"]
    return {port["containerPort"]: port["name"] for port in container.get("ports", ())}


def _pod_templates(manifests: list[Object]) -> dict[str, Object]:
    """Return the pod templates of all workloads, by the name of the workload."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]
        for item in manifests
        if item["kind"] == "Deployment"
    }


def _served_ports(name: str, pod: Object) -> set[int]:
    """Return the ports on which a component listens according to the flags of its pod."""
    (container,) = pod["spec"]["containers"]
    args = [arg.replace("$(NAMESPACE)", SYSTEM) for arg in container.get("args", ())]
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
    return {
        _port(read_flags(updater.settings.UpdaterSettings, args, program=name, environ={}).address)
    }


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def policies(cluster: Cluster) -> AsyncIterator[list[Object]]:
    """Install the manifests with the policies' component; yield the stored policies."""
    kubectl = cluster.kubectl
    try:
        await Installation(kubectl, _OVERLAY).apply()
        found = json.loads(await kubectl("get", "networkpolicy", "-o", "json", namespace=SYSTEM))
        yield found["items"]
    finally:
        await kubectl("delete", "networkpolicy", "--all", namespace=SYSTEM)


async def test_the_api_server_stores_the_policies_as_they_are_written(
    cluster: Cluster, policies: list[Object]
) -> None:
    written = {
        item["metadata"]["name"]: item["spec"]
        for item in yaml.safe_load_all(await cluster.kubectl("kustomize", str(_OVERLAY)))
        if item["kind"] == "NetworkPolicy"
    }
    assert {item["metadata"]["name"]: item["spec"] for item in policies} == written
    assert await Installation(cluster.kubectl, _OVERLAY).apply_again() == []


async def test_a_labelled_namespace_may_connect_to_each_port_of_a_component_and_no_other(
    case: Case, policies: list[Object]
) -> None:
    """Label the namespace as docs/security.md describes; before, only the webhook is allowed."""
    cluster = case.cluster
    before = await cluster.client.get(NAMESPACES.as_dicts(), case.namespace)
    await cluster.kubectl("label", "namespace", case.namespace, "vpa-metrics=allowed")
    after = await cluster.client.get(NAMESPACES.as_dicts(), case.namespace)
    for name in COMPONENTS:
        (pod,) = await cluster.component_pods(name)
        listens = listening_ports(pod["metadata"]["uid"])
        assert listens == set(_declared_ports(pod))
        assert _allowed_ports(policies, pod, after["metadata"]["labels"]) == listens
        webhook = {port for port, called in _declared_ports(pod).items() if called == "webhook"}
        assert _allowed_ports(policies, pod, before["metadata"]["labels"]) == webhook
        print(f"{name}: ports {sorted(listens)}, open to all {sorted(webhook)}")  # noqa: T201 - figures, shown with -s


async def test_each_policy_selects_the_pods_of_its_components_and_no_others(
    cluster: Cluster, policies: list[Object]
) -> None:
    """The API server evaluates the selectors for all pods in kube-system."""
    selected = {}
    for policy in policies:
        selector = from_label_selector(
            msgspec.convert(policy["spec"]["podSelector"], LabelSelector)
        )
        found = await cluster.client.list(
            PODS.as_dicts(), namespace=SYSTEM, label_selector=str(selector)
        )
        apps = {pod["metadata"]["labels"]["app"] for pod in found.items}
        selected[policy["metadata"]["name"]] = apps
    assert selected == {
        "vpa-ops": {RECOMMENDER, UPDATER, ADMISSION},
        "vpa-webhook": {ADMISSION},
    }


async def test_the_shipped_manifests_allow_the_same_ports(cluster: Cluster) -> None:
    """Without the overlay's ports."""
    manifests = list(yaml.safe_load_all(await cluster.kubectl("kustomize", str(DEPLOY))))
    policies = list(yaml.safe_load_all(await cluster.kubectl("kustomize", str(_COMPONENT))))
    pods = _pod_templates(manifests)
    assert pods.keys() == set(COMPONENTS)
    for name, pod in pods.items():
        assert _served_ports(name, pod) == set(_declared_ports(pod))
        assert _allowed_ports(policies, pod, _LABEL) == _served_ports(name, pod)
        assert _allowed_ports(policies, pod, {}) == ({8000} if name == ADMISSION else set())
        selecting = {
            policy["metadata"]["name"]
            for policy in policies
            if _selects(policy["spec"]["podSelector"], pod["metadata"]["labels"])
        }
        assert (
            selecting
            == {
                RECOMMENDER: {"vpa-ops"},
                UPDATER: {"vpa-ops"},
                ADMISSION: {"vpa-ops", "vpa-webhook"},
            }[name]
        )
