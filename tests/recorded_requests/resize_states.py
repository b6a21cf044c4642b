"""Resizes of pods: their shapes, their states and those of their nodes."""

from recorded_requests.case import (
    JSON_PATCH,
    MERGE,
    NS,
    STRATEGIC,
    Case,
    Request,
    amounts,
    container,
    patch,
    pod,
    post,
)
from recorded_requests.resize import (
    BURSTABLE,
    GUARANTEED,
    INIT,
    NODE,
    RESTART,
    SIDECAR,
    TWO,
    cpu,
    node,
    on_node,
    placed,
    resized,
    resources,
    running,
    sent,
)


def shapes() -> list[Case]:
    """Return shapes of pods: QoS classes, several containers, init containers, policies."""
    bare = placed(container())
    guaranteed = placed(container(resources=GUARANTEED))
    only_requests = placed(container(resources=amounts({"cpu": "100m"})))
    sidecar = placed(container(resources=BURSTABLE), initContainers=[SIDECAR])
    plain = placed(container(resources=BURSTABLE), initContainers=[INIT])
    init = {"spec": {"initContainers": [{"name": "init", "resources": cpu("200m")}]}}
    policy = {"spec": {"containers": [{"name": "app", "resizePolicy": RESTART}]}}
    restart = placed(container(resources=BURSTABLE, resizePolicy=RESTART))
    pod_level = placed(container(resources=BURSTABLE), resources=amounts({"cpu": "1"}, cpu="2"))
    return [
        resized("best-effort", cpu("100m"), *bare),
        resized("guaranteed-request-only", cpu("50m"), *guaranteed),
        resized(
            "guaranteed-both", {"requests": {"cpu": "200m"}, "limits": {"cpu": "200m"}}, *guaranteed
        ),
        resized("memory-added", {"requests": {"memory": "1Gi"}}, *only_requests),
        resized("limit-added", {"limits": {"cpu": "1"}}, *only_requests),
        resized("memory-limit-added", {"limits": {"memory": "1Gi"}}, *only_requests),
        resized("restart-memory", {"limits": {"memory": "128Mi"}}, *restart),
        sent("policy-added", policy, STRATEGIC),
        sent(
            "policy-changed",
            {
                "spec": {
                    "containers": [
                        {
                            "name": "app",
                            "resizePolicy": [
                                {"resourceName": "memory", "restartPolicy": "NotRequired"}
                            ],
                        }
                    ]
                }
            },
            STRATEGIC,
            *restart,
        ),
        sent("second-of-two", resources(cpu("200m"), "side"), STRATEGIC, *placed(*TWO)),
        sent(
            "both-of-two-wrong",
            {
                "spec": {
                    "containers": [
                        {"name": "app", "resources": cpu("2")},
                        {"name": "side", "resources": cpu("3")},
                    ]
                }
            },
            STRATEGIC,
            *placed(*TWO),
        ),
        sent(
            "reordered",
            [{"op": "move", "from": "/spec/containers/0", "path": "/spec/containers/1"}],
            JSON_PATCH,
            *placed(*TWO),
        ),
        sent(
            "renamed",
            [{"op": "replace", "path": "/spec/containers/0/name", "value": "other"}],
            JSON_PATCH,
        ),
        sent(
            "container-removed",
            [{"op": "remove", "path": "/spec/containers/0"}],
            JSON_PATCH,
            *placed(*TWO),
        ),
        sent(
            "container-added",
            [{"op": "add", "path": "/spec/containers/-", "value": container("new")}],
            JSON_PATCH,
        ),
        sent(
            "all-removed", [{"op": "replace", "path": "/spec/containers", "value": []}], JSON_PATCH
        ),
        sent("sidecar", init, STRATEGIC, *sidecar),
        sent("init", init, STRATEGIC, *plain),
        sent("init-added", {"spec": {"initContainers": [INIT]}}, STRATEGIC),
        sent(
            "init-other-resource",
            {
                "spec": {
                    "initContainers": [
                        {"name": "init", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}
                    ]
                }
            },
            STRATEGIC,
            *sidecar,
        ),
        sent("pod-level", {"spec": {"resources": {"limits": {"cpu": "3"}}}}, STRATEGIC, *pod_level),
        sent("pod-level-removed", {"spec": {"resources": None}}, STRATEGIC, *pod_level),
        sent(
            "pod-level-limit-removed",
            {"spec": {"resources": {"limits": None}}},
            STRATEGIC,
            *pod_level,
        ),
        sent("pod-level-added", {"spec": {"resources": {"limits": {"cpu": "3"}}}}, STRATEGIC),
        sent(
            "pod-level-container-above",
            {"spec": {"resources": {"limits": {"cpu": "500m"}}}},
            STRATEGIC,
            *pod_level,
        ),
        sent(
            "pod-level-other",
            {"spec": {"resources": {"requests": {"ephemeral-storage": "1"}}}},
            STRATEGIC,
            *pod_level,
        ),
    ]


def states() -> list[Case]:
    """Return phases of the pod and states of its containers."""
    body = pod("p", container(resources=BURSTABLE), nodeName=NODE)
    free = pod("p", container(resources=BURSTABLE))
    mirror = pod(
        "p",
        container(resources=BURSTABLE),
        meta={"annotations": {"kubernetes.io/config.mirror": "x"}},
        nodeName=NODE,
    )
    return [
        resized("unscheduled", cpu("200m"), post(f"{NS}/pods", free)),
        resized(
            "unscheduled-huge",
            {"requests": {"cpu": "900"}, "limits": {"cpu": "1k"}},
            post(f"{NS}/pods", free),
        ),
        resized("not-started", cpu("200m"), *node(), post(f"{NS}/pods", body)),
        resized(
            "succeeded", cpu("200m"), *node(), *running(body, phase="Succeeded", state="terminated")
        ),
        resized("failed", cpu("200m"), *node(), *running(body, phase="Failed", state="terminated")),
        resized("waiting", cpu("200m"), *node(), *running(body, phase="Pending", state="waiting")),
        resized("unreported", cpu("200m"), *node(), *running(body, reported=False)),
        resized(
            "unreported-waiting",
            cpu("200m"),
            *node(),
            *running(body, state="waiting", reported=False),
        ),
        resized("mirror", cpu("200m"), *node(), post(f"{NS}/pods", mirror)),
        resized(
            "windows-pod",
            cpu("200m"),
            *node(system="windows"),
            *running(
                pod("p", container(resources=BURSTABLE), nodeName=NODE, os={"name": "windows"})
            ),
        ),
        resized(
            "restart-never",
            cpu("200m"),
            *node(),
            *running(
                pod("p", container(resources=BURSTABLE), nodeName=NODE, restartPolicy="Never")
            ),
        ),
        resized(
            "terminating", cpu("200m"), *placed(), Request(method="DELETE", path=f"{NS}/pods/p")
        ),
    ]


def nodes() -> list[Case]:
    """Return states of the node."""
    big = {"requests": {"cpu": "5"}, "limits": {"cpu": "5"}}
    shrunk = patch(
        f"/api/v1/nodes/{NODE}/status", {"status": {"allocatable": {"cpu": "50m"}}}, MERGE
    )
    return [
        on_node("capacity-cpu", big, *node()),
        on_node(
            "capacity-memory", {"requests": {"memory": "9Gi"}, "limits": {"memory": "9Gi"}}, *node()
        ),
        on_node(
            "capacity-both",
            {"requests": {"cpu": "5", "memory": "9Gi"}, "limits": {"cpu": "5", "memory": "9Gi"}},
            *node(),
        ),
        on_node("capacity-equal", {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}, *node()),
        on_node("capacity-limit-only", {"limits": {"cpu": "9"}}, *node()),
        on_node("capacity-dry-run", big, *node(), query="?dryRun=All"),
        on_node("without-label", cpu("200m"), *node(system="")),
        on_node("missing", cpu("200m")),
        on_node("missing-no-op", cpu("100m")),
        resized("node-shrunk-decrease", cpu("80m"), *placed(), shrunk, until=("code", 403)),
        resized("node-shrunk-to-fit", cpu("40m"), *placed(), shrunk),
        resized(
            "capacity-and-qos",
            {"requests": {"cpu": "9", "memory": "256Mi"}, "limits": {"cpu": "9"}},
        ),
    ]


CASES = [*shapes(), *states(), *nodes()]
