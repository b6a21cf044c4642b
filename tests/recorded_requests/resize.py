"""Resizes of pods: the patch types, the values, and the rules of pods and nodes."""

from typing import Any

from recorded_requests.case import (
    JSON_PATCH,
    MERGE,
    NS,
    STRATEGIC,
    Case,
    Object,
    Request,
    amounts,
    case,
    container,
    get,
    named,
    patch,
    pod,
    post,
    put,
)

RESIZE = f"{NS}/pods/p/resize"
NODE = "{ns}-node"
BURSTABLE = amounts({"cpu": "100m", "memory": "64Mi"}, cpu="1", memory="256Mi")
_START = "2026-11-21T08:25:00Z"
GUARANTEED = amounts({"cpu": "100m", "memory": "64Mi"}, cpu="100m", memory="64Mi")
FEATURES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]


def node(
    *, system: str = "linux", cpu: str = "4", memory: str = "8Gi", features: bool = True
) -> tuple[Request, Request]:
    """Return requests that create a node without a kubelet, and set its capacity."""
    labels = {"kubernetes.io/os": system} if system else {}
    size = {"cpu": cpu, "memory": memory, "pods": "110"}
    status: Object = {"capacity": size, "allocatable": size}
    if features:
        status["declaredFeatures"] = FEATURES
    return (
        post("/api/v1/nodes", named(NODE, meta={"labels": labels})),
        patch(f"/api/v1/nodes/{NODE}/status", {"status": status}, MERGE),
    )


def running(
    body: Object, *, phase: str = "Running", state: str = "running", reported: bool = True
) -> tuple[Request, Request]:
    """Return requests that create a pod, and write the status of a kubelet."""
    states: Object = {
        "running": {"startedAt": _START},
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": _START,
            "finishedAt": _START,
        },
        "waiting": {"reason": "ContainerCreating"},
    }
    statuses = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "",
            "ready": state == "running",
            "restartCount": 0,
            "state": {state: states[state]},
            "lastState": {},
            **({"resources": one.get("resources") or {}} if reported else {}),
        }
        for one in body["spec"]["containers"]
    ]
    status = {"phase": phase, "containerStatuses": statuses}
    return (
        post(f"{NS}/pods", body),
        patch(f"{NS}/pods/p/status", {"status": status}, STRATEGIC),
    )


def placed(*containers: Object, **spec: Any) -> tuple[Request, ...]:
    """Return requests that create a running pod on a node with four cores."""
    body = pod("p", *(containers or (container(resources=BURSTABLE),)), nodeName=NODE, **spec)
    return (*node(), *running(body))


def resources(value: Any, name: str = "app") -> Object:
    """Return a strategic merge patch of one container's resources."""
    return {"spec": {"containers": [{"name": name, "resources": value}]}}


def resized(name: str, value: Any, *before: Request, query: str = "", **options: Any) -> Case:
    """Return a case that patches one container's resources, and reads the stored pod."""
    return case(
        f"resize-{name}",
        patch(f"{RESIZE}{query}", resources(value), **options),
        get(f"{NS}/pods/p"),
        before=before or placed(),
    )


def sent(name: str, body: Any, content_type: str, *before: Request, query: str = "") -> Case:
    """Return a case with a patch of any type."""
    return case(
        f"resize-{name}",
        patch(f"{RESIZE}{query}", body, content_type),
        before=before or placed(),
    )


def on_node(name: str, value: Any, *nodes: Request, **options: Any) -> Case:
    """Return a case with a resize of a pod on a node."""
    body = pod("p", container(resources=BURSTABLE), nodeName=NODE)
    return resized(f"node-{name}", value, *nodes, *running(body), **options)


def cpu(value: str) -> Object:
    return {"requests": {"cpu": value}}


CPU_PATH = "/spec/containers/0/resources/requests/cpu"
RESTART = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
TWO = (container("app", resources=BURSTABLE), container("side", resources=BURSTABLE))
INIT = container("init", resources=BURSTABLE)
SIDECAR = {**INIT, "restartPolicy": "Always"}


def forms() -> list[Case]:
    """Return the patch types, and malformed requests."""
    replace = [{"op": "replace", "path": CPU_PATH, "value": "200m"}]
    whole = {"spec": {"containers": [container(resources={**BURSTABLE, **cpu("200m")})]}}
    return [
        resized("strategic", cpu("200m")),
        resized("strategic-dry-run", cpu("200m"), query="?dryRun=All"),
        resized("strategic-no-op", cpu("100m")),
        resized("strategic-no-op-spelling", cpu("0.1")),
        sent("json-patch", replace, JSON_PATCH),
        sent("json-patch-add", [{**replace[0], "op": "add"}], JSON_PATCH),
        sent("json-patch-test", [{"op": "test", "path": CPU_PATH, "value": "100m"}], JSON_PATCH),
        sent("json-patch-test-fails", [{"op": "test", "path": CPU_PATH, "value": "1"}], JSON_PATCH),
        sent(
            "json-patch-missing-path",
            [{"op": "replace", "path": "/spec/containers/7/resources", "value": {}}],
            JSON_PATCH,
        ),
        sent("json-patch-remove", [{"op": "remove", "path": CPU_PATH}], JSON_PATCH),
        sent("json-patch-unknown-operation", [{"op": "jump", "path": CPU_PATH}], JSON_PATCH),
        sent("json-patch-empty", [], JSON_PATCH),
        sent("merge-partial", {"spec": {"containers": [{"name": "app"}]}}, MERGE),
        sent("merge-whole", whole, MERGE),
        sent("strategic-number", resources({"requests": {"cpu": 1}}), STRATEGIC),
        sent("wrong-name", {"metadata": {"name": "q"}}, STRATEGIC),
        sent("wrong-namespace", {"metadata": {"namespace": "q"}}, STRATEGIC),
        sent("stale-version", {"metadata": {"resourceVersion": "1"}}, STRATEGIC),
        sent("labels-are-dropped", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC),
        sent(
            "image-is-dropped", {"spec": {"containers": [{"name": "app", "image": "j"}]}}, STRATEGIC
        ),
        sent("status-is-dropped", {"status": {"phase": "Failed"}}, STRATEGIC),
        sent("dry-run-wrong", resources(cpu("200m")), STRATEGIC, query="?dryRun=Some"),
        case("resize-get", get(RESIZE), before=placed()),
        case("resize-get-not-found", get(RESIZE)),
        case("resize-not-found", patch(RESIZE, resources(cpu("200m")))),
        case("resize-post", post(RESIZE, {}), before=placed()),
        case("resize-delete", Request(method="DELETE", path=RESIZE), before=placed()),
        case(
            "resize-put-not-found",
            put(RESIZE, {**pod(), "apiVersion": "v1", "kind": "Pod"}),
        ),
        case("resize-put-empty", put(RESIZE, {}), before=placed()),
    ]


def values() -> list[Case]:
    """Return quantities: their canonical form, and invalid ones."""
    accepted = {
        "decimal": "0.25",
        "milli": "1000m",
        "rounded-up": "100500u",
        "exponent": "1e-1",
        "upper-exponent": "1E-1",
    }
    memory = {
        "kibi": "65536Ki",
        "fraction": "0.1Gi",
        "bytes": "100000000",
        "exponent": "1e8",
        "fraction-of-a-byte": "100000000.5",
        "mega": "100M",
    }
    limits: dict[str, Any] = {
        "negative": cpu("-1"),
        "zero": cpu("0"),
        "above-limit": cpu("2"),
        "limit-below-request": {"limits": {"cpu": "50m"}},
        "memory-above-limit": {"requests": {"memory": "1Gi"}},
        "removed-request": {"requests": {"cpu": None}},
        "removed-limit": {"limits": {"cpu": None}},
        "removed-all": None,
        "other-resource": {"requests": {"ephemeral-storage": "1Gi"}},
        "extended-resource": {
            "requests": {"example.com/gpu": "1"},
            "limits": {"example.com/gpu": "1"},
        },
        "unknown-resource": {"requests": {"power": "1"}},
        "memory-limit-down": {"limits": {"memory": "128Mi"}},
        "memory-limit-up": {"limits": {"memory": "512Mi"}},
        "cpu-limit-down": {"limits": {"cpu": "500m"}},
        "to-guaranteed": {"requests": {"cpu": "1", "memory": "256Mi"}},
    }
    return [
        *(resized(f"cpu-{name}", cpu(value)) for name, value in accepted.items()),
        *(
            resized(f"memory-{name}", {"requests": {"memory": value}})
            for name, value in memory.items()
        ),
        *(resized(f"value-{name}", value) for name, value in limits.items()),
    ]


CASES = [*forms(), *values()]
