"""Bindings, changes and logs of pods, and bodies that are none of a pod."""

from typing import Any

from recorded_requests.case import (
    APPS,
    MERGE,
    NS,
    POD,
    PODS,
    Case,
    Object,
    case,
    container,
    get,
    patch,
    pod,
    post,
    workload,
)

GATED: Object = {"schedulingGates": [{"name": "example.com/a"}]}


def bindings() -> list[Case]:
    def bound(meta: Object | None = None, **target: Any) -> Object:
        return {"metadata": {"name": "p", **(meta or {})}, "target": target}

    node: Object = {"kind": "Node", "name": "n"}
    path = f"{POD}/binding"
    made, gated = [post(PODS, pod())], [post(PODS, pod("p", container(), **GATED))]
    return [
        case("bind-twice", post(path, bound(**node)), post(path, bound(**node)), before=made),
        case("bind-other-kind", post(path, bound(kind="Pod", name="n")), before=made),
        case("bind-nowhere", post(path, bound(kind="Pod")), before=made),
        case("bind-other-uid", post(path, bound({"uid": "x"}, **node)), before=made),
        case("bind-stale", post(path, bound({"resourceVersion": "1"}, **node)), before=made),
        case(
            "bind-with-metadata",
            post(path, bound({"annotations": {"a": "b"}, "labels": {"c": "d"}}, **node)),
            get(POD),
            before=made,
        ),
        case("bind-missing", post(path, bound(**node))),
        case("bind-gated", post(path, bound(**node)), before=gated),
        case("bind-dry-run", post(f"{path}?dryRun=All", bound(**node)), get(POD), before=made),
    ]


def updates() -> list[Case]:
    def spec(**fields: Any) -> Any:
        return patch(POD, {"spec": fields})

    def app(**fields: Any) -> Any:
        return spec(containers=[{"name": "app", **fields}])

    made, gated = [post(PODS, pod())], [post(PODS, pod("p", container(), **GATED))]
    tolerated = [{"key": "a", "operator": "Exists"}]
    deadlines = [spec(activeDeadlineSeconds=seconds) for seconds in (0, 10, 20, None)]
    config = {"metadata": {"labels": {"a b": "c"}, "finalizers": ["x"]}}
    owners = {"metadata": {"ownerReferences": [{"kind": "a", "name": "b"}]}}
    return [
        case("update-gates-removed", spec(schedulingGates=None), before=gated),
        case("update-gate-added", spec(schedulingGates=[{"name": "a.b/d"}]), before=made),
        case(
            "update-gated-selector",
            spec(nodeSelector={"a": "b"}),
            spec(nodeSelector={"a": "c"}),
            before=gated,
        ),
        case(
            "update-tolerations",
            spec(tolerations=tolerated),
            spec(tolerations=[{**tolerated[0], "key": "b"}]),
            before=made,
        ),
        case("update-deadline", *deadlines, before=made),
        case("update-no-image", app(image=""), before=made),
        case("update-image-space", app(image=" x"), before=made),
        case("update-owner", patch(POD, owners, MERGE), before=made),
        case(
            "update-finalizer", patch(POD, {"metadata": {"finalizers": ["x"]}}, MERGE), before=made
        ),
        case(
            "update-config-map",
            patch(f"{NS}/configmaps/c", config, MERGE),
            before=[post(f"{NS}/configmaps", {"metadata": {"name": "c"}})],
        ),
        case(
            "update-deployment",
            patch(f"{APPS}/deployments/w", config, MERGE),
            before=[post(f"{APPS}/deployments", workload("w"))],
        ),
    ]


def logs() -> list[Case]:
    two = pod("p", container("a"), container("b"))
    return [
        case("log-other-container", get(f"{POD}/log?container=no"), before=[post(PODS, pod())]),
        case("log-of-two", get(f"{POD}/log"), before=[post(PODS, two)]),
        case("log-of-one-of-two", get(f"{POD}/log?container=b"), before=[post(PODS, two)]),
    ]


def texts() -> list[Case]:
    """Bodies that are no JSON, or hold something else where something belongs."""
    bodies = {
        "colon": b'{"a" 1}',
        "comma": b'{"a":1,}',
        "list-comma": b"[1,]",
        "no-comma": b'{"a":1 "b"}',
        "list-no-comma": b"[1 2]",
        "more": b"{} x",
        "line": b'{"a":"\n"}',
        "escape": b'{"a":"\\q"}',
        "word": b"tru",
        "other-word": b"trux",
        "number": b"5",
        "text": b'"x"',
        "empty": b"",
        "kind-number": b'{"kind":5}',
        "unknown-kind": {"kind": "Nope"},
        "other-group": {"kind": "Pod", "apiVersion": "apps/v1"},
        "metadata-number": {"metadata": 5},
        "time-number": {"metadata": {"creationTimestamp": 5}},
        "fraction": {"spec": {"containers": [{"ports": [{"containerPort": 1.5}]}]}},
        "too-large": b'{"spec":{"terminationGracePeriodSeconds":99999999999999999999}}',
        "flag": {"spec": {"hostNetwork": "x"}},
        "container": {"spec": {"containers": [5]}},
        "amounts": {"spec": {"containers": [{"resources": {"limits": []}}]}},
        "amount": {"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}},
        "policy": {"spec": {"containers": [{"imagePullPolicy": 5}]}},
        "probe-port": {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]}},
    }
    return [case(f"text-{name}", post(PODS, body)) for name, body in bodies.items()]


CASES = [*bindings(), *updates(), *logs(), *texts()]
