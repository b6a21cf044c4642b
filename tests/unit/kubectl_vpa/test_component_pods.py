"""What ``kubectl vpa`` learns from the pod of a component."""

from typing import Any

import pytest

from kubectl_vpa.judge.component_pods import component_pod


def pod(container: dict[str, Any], *, app: str = "vpa-updater") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "system", "name": "pod-1", "labels": {"app": app}},
        "spec": {"nodeName": "node-1", "containers": [container]},
    }


def field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


@pytest.mark.parametrize(
    ("env", "argument", "want"),
    [
        pytest.param([], "--a=$(NAMESPACE)", "--a=$(NAMESPACE)", id="unknown"),
        pytest.param(
            [field("NAMESPACE", "metadata.namespace")], "--a=$(NAMESPACE)", "--a=system", id="field"
        ),
        pytest.param([field("NODE", "spec.nodeName")], "--a=$(NODE)", "--a=node-1", id="node"),
        pytest.param(
            [field("IP", "status.podIP")], "--a=$(IP)", "--a=$(IP)", id="field that isn't read"
        ),
        pytest.param([{"name": "A", "value": "1"}], "--a=$(A)", "--a=1", id="value"),
        pytest.param(
            [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}],
            "--a=$(B)",
            "--a=12",
            id="value that refers to another",
        ),
        pytest.param([{"name": "A"}], "--a=$(A)", "--a=", id="empty value"),
        pytest.param([{"name": "A", "value": "1"}], "--a=$$(A)", "--a=$(A)", id="escaped"),
        pytest.param(
            [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "--a=$(A)",
            "--a=$(A)",
            id="a Secret is not read",
        ),
    ],
)
def test_variables_of_arguments(env: list[dict[str, Any]], argument: str, want: str) -> None:
    assert component_pod(pod({"env": env, "args": [argument]})).arguments == (want,)


@pytest.mark.parametrize(
    ("container", "port"),
    [
        pytest.param({}, 8943, id="default"),
        pytest.param({"ports": [{"name": "web", "containerPort": 1}]}, 8943, id="another port"),
        pytest.param({"ports": [{"name": "prometheus", "containerPort": 1}]}, 1, id="declared"),
        pytest.param({"args": ["--address=:9000"]}, 9000, id="flag"),
        pytest.param(
            {
                "args": ["--address=0.0.0.0:9000"],
                "ports": [{"name": "prometheus", "containerPort": 1}],
            },
            9000,
            id="the flag decides",
        ),
        pytest.param({"args": ["--address=nonsense"]}, 8943, id="a flag without a port"),
    ],
)
def test_the_port_of_the_ops_address(container: dict[str, Any], port: int) -> None:
    assert component_pod(pod(container)).port == port


def test_a_pod_that_says_little() -> None:
    found = component_pod(pod({}))
    assert (found.account, found.image, found.ready) == (
        "system:serviceaccount:system:default",
        "",
        False,
    )
