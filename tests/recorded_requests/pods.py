"""Pods: defaults, validation and allowed changes."""

from typing import Any

from recorded_requests.case import (
    JSON_PATCH,
    MERGE,
    POD,
    PODS,
    STRATEGIC,
    Case,
    Object,
    amounts,
    case,
    container,
    delete,
    get,
    patch,
    pod,
    post,
    put,
)

PROBE = {"httpGet": {"path": "/", "port": 8080}}


def created(name: str, body: Any, *, query: str = "") -> Case:
    return case(f"pod-create-{name}", post(f"{PODS}{query}", body))


def with_container(**fields: Any) -> Object:
    return pod("p", container(**fields))


def changed(name: str, body: Any, content_type: str = STRATEGIC) -> Case:
    return case(f"pod-change-{name}", patch(POD, body, content_type), before=[post(PODS, pod())])


def bodies() -> dict[str, Any]:
    """Return valid and invalid bodies of pods, by name."""
    restart = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    mount = {"name": "v", "mountPath": "/v"}
    return {
        "minimal": pod("p", container()),
        "resources": pod(),
        "grace": pod("p", container(), terminationGracePeriodSeconds=5),
        "limits-only": with_container(resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
        "quantities": with_container(resources=amounts({"cpu": "0.25", "memory": "65536Ki"})),
        "labels": pod(meta={"labels": {"app": "x"}, "annotations": {"a": "b"}}),
        "generate-name": {**pod(), "metadata": {"generateName": "p-"}},
        "lifecycle-exec": with_container(lifecycle={"preStop": {"exec": {"command": ["x"]}}}),
        "image-latest": {
            "metadata": {"name": "p"},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "a", "image": "i:latest"}]},
        },
        "init": pod("p", container(), initContainers=[container("i")]),
        "sidecar": pod("p", container(), initContainers=[container("i", restartPolicy="Always")]),
        "volumes": pod(
            "p", container(volumeMounts=[mount]), volumes=[{"name": "v", "emptyDir": {}}]
        ),
        "tolerations": pod("p", container(), tolerations=[{"operator": "Exists"}]),
        "affinity": pod(
            "p", container(), nodeSelector={"a": "b"}, affinity={"podAntiAffinity": {}}
        ),
        "security": pod(
            "p",
            container(securityContext={"runAsNonRoot": True}),
            securityContext={"runAsUser": 1000},
        ),
        "resize-policy": with_container(resizePolicy=restart),
        "status-ignored": {**pod(), "status": {"phase": "Running"}},
        "readiness-gates": pod(
            "p", container(), readinessGates=[{"conditionType": "a.example.com/b"}]
        ),
        "pod-level": pod("p", container(), resources=amounts({"cpu": "1"}, cpu="2")),
        # Invalid bodies.
        "no-containers": {"metadata": {"name": "p"}, "spec": {}},
        "empty": {},
        "no-spec": {"metadata": {"name": "p"}},
        "no-name": {**pod(), "metadata": {}},
        "other-namespace": {**pod(), "metadata": {"name": "p", "namespace": "other"}},
        "request-above-limit": with_container(resources=amounts({"cpu": "2"}, cpu="1")),
        "memory-above-limit": with_container(resources=amounts({"memory": "2Gi"}, memory="1Gi")),
        "negative": with_container(resources=amounts({"cpu": "-1"})),
        "bad-quantity": with_container(resources=amounts({"cpu": "many"})),
        "unknown-resource": with_container(resources=amounts({"power": "1"})),
        "extended-without-limit": with_container(resources=amounts({"example.com/gpu": "1"})),
        "extended-fraction": with_container(
            resources=amounts({"example.com/gpu": "500m"}, **{"example.com/gpu": "500m"})
        ),
        "bad-resize-policy": with_container(
            resizePolicy=[{"resourceName": "disk", "restartPolicy": "NotRequired"}]
        ),
        "bad-resize-restart": with_container(
            resizePolicy=[{"resourceName": "cpu", "restartPolicy": "Maybe"}]
        ),
        "resize-policy-twice": with_container(resizePolicy=restart * 2),
        "resize-restart-never": {
            **pod("p", container(resizePolicy=restart), restartPolicy="Never")
        },
        "null": b"null",
        "version-set": pod(meta={"resourceVersion": "1"}),
        "pod-level-below-containers": pod(
            "p", container(resources=amounts({"cpu": "2"})), resources=amounts({"cpu": "1"})
        ),
    }


def changes() -> list[Case]:
    """Return patches and replacements of a stored pod."""
    image = {"spec": {"containers": [{"name": "app", "image": "j:2"}]}}
    cpu = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "200m"}}}]}}
    return [
        changed("image", image),
        changed("resources", cpu),
        changed("grace", {"spec": {"terminationGracePeriodSeconds": 1}}),
        changed("node", {"spec": {"nodeName": "n"}}),
        changed("restart-policy", {"spec": {"restartPolicy": "Never"}}),
        changed("label", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        changed("annotation", {"metadata": {"annotations": {"a": "b"}}}, MERGE),
        changed(
            "annotation-removed", [{"op": "remove", "path": "/metadata/annotations/a"}], JSON_PATCH
        ),
        changed("deadline", {"spec": {"activeDeadlineSeconds": 10}}),
        changed("toleration", {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
        changed("name", {"metadata": {"name": "q"}}),
        changed("creation-time", {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}),
        changed("status-ignored", {"status": {"phase": "Failed"}}, MERGE),
        changed("nothing", {}, MERGE),
        changed("finalizer", {"metadata": {"finalizers": ["example.com/a"]}}, MERGE),
        changed(
            "owner",
            {
                "metadata": {
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}
                    ]
                }
            },
            MERGE,
        ),
        case("pod-put-missing", put(POD, pod())),
        case(
            "pod-put-stale",
            put(POD, pod(meta={"resourceVersion": "1"})),
            before=[post(PODS, pod())],
        ),
        case("pod-put-other-name", put(POD, pod("q")), before=[post(PODS, pod())]),
        case("pod-put-other-uid", put(POD, pod(meta={"uid": "x"})), before=[post(PODS, pod())]),
        case("pod-put-empty", put(POD, {}), before=[post(PODS, pod())]),
        case("pod-patch-missing", patch(POD, image)),
        case("pod-post-twice", post(PODS, pod()), before=[post(PODS, pod())]),
        case("pod-post-on-name", post(POD, pod())),
        case("pod-status-put-missing", put(f"{POD}/status", pod())),
        case(
            "pod-status-patch",
            patch(
                f"{POD}/status",
                {
                    "status": {
                        "phase": "Running",
                        "conditions": [{"type": "Ready", "status": "True"}],
                    }
                },
            ),
            patch(
                f"{POD}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
            ),
            patch(f"{POD}/status", {"spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}}),
            patch(
                f"{POD}/status", {"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}
            ),
            before=[post(PODS, pod())],
        ),
        case(
            "pod-binding",
            post(f"{POD}/binding", {"target": {"kind": "Node", "name": "n"}}),
            post(f"{POD}/binding", {"target": {"kind": "Node", "name": "m"}}),
            get(POD),
            before=[post(PODS, pod())],
        ),
        case(
            "pod-binding-missing", post(f"{POD}/binding", {"target": {"kind": "Node", "name": "n"}})
        ),
        case(
            "pod-binding-no-name",
            post(f"{POD}/binding", {"target": {"kind": "Node"}}),
            before=[post(PODS, pod())],
        ),
        case("pod-log-missing", get(f"{POD}/log")),
        case("pod-unknown-subresource", get(f"{POD}/nothing"), before=[post(PODS, pod())]),
        case("pod-dry-run", post(f"{PODS}?dryRun=All", pod()), get(POD)),
    ]


def deletions() -> list[Case]:
    """Return deletions: grace periods, preconditions, finalizers and dry runs."""
    made = [post(PODS, pod())]
    placed = [post(PODS, pod("p", container(), nodeName="nowhere"))]
    return [
        case("pod-delete", delete(POD), get(POD), before=made),
        case("pod-delete-missing", delete(POD)),
        case(
            "pod-delete-placed",
            delete(POD),
            get(POD),
            delete(f"{POD}?gracePeriodSeconds=0"),
            get(POD),
            before=placed,
        ),
        case("pod-delete-grace-query", delete(f"{POD}?gracePeriodSeconds=7"), before=placed),
        case("pod-delete-grace-body", delete(POD, {"gracePeriodSeconds": 7}), before=placed),
        case(
            "pod-delete-grace-shorter",
            delete(POD, {"gracePeriodSeconds": 7}),
            delete(POD, {"gracePeriodSeconds": 3}),
            delete(POD, {"gracePeriodSeconds": 9}),
            before=placed,
        ),
        case("pod-delete-grace-negative", delete(POD, {"gracePeriodSeconds": -3}), before=placed),
        case("pod-delete-dry-run", delete(f"{POD}?dryRun=All"), get(POD), before=made),
        case("pod-delete-uid", delete(POD, {"preconditions": {"uid": "{uid}"}}), before=made),
        case(
            "pod-delete-version",
            delete(POD, {"preconditions": {"resourceVersion": "{version}"}}),
            before=made,
        ),
        case(
            "pod-delete-finalizer",
            delete(POD),
            get(POD),
            patch(POD, {"metadata": {"finalizers": None}}, MERGE),
            get(POD),
            before=[post(PODS, pod(meta={"finalizers": ["example.com/a"]}))],
        ),
        case("pod-delete-bad-grace", delete(f"{POD}?gracePeriodSeconds=x"), before=made),
    ]


CASES = [
    *(created(name, body) for name, body in bodies().items()),
    *changes(),
    *deletions(),
]
