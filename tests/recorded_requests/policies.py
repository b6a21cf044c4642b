"""Policies that refuse pods or their disruption: LimitRanges, quotas, PodDisruptionBudgets."""

from typing import Any

from recorded_requests.case import (
    MERGE,
    NS,
    PODS,
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
)
from recorded_requests.resize import RESIZE, placed, resources

PDBS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"


def limit_range(*limits: Object) -> Request:
    return post(f"{NS}/limitranges", named("lr", spec={"limits": list(limits)}))


BOUNDS = {
    "type": "Container",
    "max": {"cpu": "500m", "memory": "1Gi"},
    "min": {"cpu": "50m", "memory": "16Mi"},
    "maxLimitRequestRatio": {"memory": "4"},
    "default": {"cpu": "400m", "memory": "256Mi"},
    "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
}


def limits() -> list[Case]:
    """Return cases of LimitRanger: pods, resizes, and LimitRanges."""

    def bounded(name: str, resources: Object | None, *ranges: Object) -> Case:
        fields: Object = {"resources": resources} if resources else {}
        body = pod("p", container(**fields))
        return case(
            f"limits-{name}", post(PODS, body), before=[limit_range(*(ranges or (BOUNDS,)))]
        )

    def ranged(name: str, *ranges: Object) -> Case:
        return case(
            f"limits-range-{name}",
            post(f"{NS}/limitranges", named("lr", spec={"limits": list(ranges)})),
        )

    pod_max = {"type": "Pod", "max": {"cpu": "600m"}}
    fine = amounts({"cpu": "100m", "memory": "64Mi"}, cpu="200m", memory="128Mi")
    return [
        bounded("defaults", None),
        bounded("fine", fine),
        bounded("request-only", amounts({"cpu": "100m"})),
        bounded("cpu-above-max", amounts({"cpu": "100m"}, cpu="600m")),
        bounded("memory-above-max", amounts({"memory": "1Gi"}, memory="2Gi")),
        bounded("cpu-below-min", amounts({"cpu": "10m"}, cpu="100m")),
        bounded("ratio", amounts({"memory": "64Mi"}, memory="512Mi")),
        bounded("two-wrong", amounts({"cpu": "10m"}, cpu="600m")),
        bounded("request-above-default-limit", amounts({"cpu": "450m"})),
        bounded("pod-max", amounts({"cpu": "700m"}, cpu="700m"), pod_max),
        bounded("pod-max-missing", None, pod_max),
        bounded("pod-and-container", fine, pod_max, BOUNDS),
        bounded("only-max", None, {"type": "Container", "max": {"cpu": "1"}}),
        bounded("only-min", None, {"type": "Container", "min": {"cpu": "100m"}}),
        bounded(
            "only-min-below", amounts({"cpu": "50m"}), {"type": "Container", "min": {"cpu": "100m"}}
        ),
        ranged("defaulted", {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}),
        case(
            "limits-resize-above-max",
            patch(RESIZE, resources(amounts(cpu="600m"))),
            before=[limit_range(BOUNDS), *placed(container(resources=fine))],
        ),
        case(
            "limits-resize-below-min",
            patch(RESIZE, resources(amounts({"cpu": "10m"}))),
            before=[limit_range(BOUNDS), *placed(container(resources=fine))],
        ),
        case(
            "limits-resize-fills-in",
            patch(
                f"{RESIZE}?dryRun=All",
                resources(amounts({"cpu": "150m"})),
                until=("spec.containers.0.resources.limits.cpu", "400m"),
            ),
            before=[*placed(container(resources=amounts({"cpu": "100m"}))), limit_range(BOUNDS)],
        ),
        case(
            "limits-resize-ratio",
            patch(RESIZE, resources(amounts({"memory": "17Mi"}))),
            before=[limit_range(BOUNDS), *placed(container(resources=fine))],
        ),
        case(
            "limits-change-label",
            patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE),
            before=[post(PODS, pod("p", container())), limit_range(BOUNDS)],
        ),
    ]


def quotas() -> list[Case]:
    """Return cases of ResourceQuotas: pods, counts and resizes."""

    def quota(hard: Object, **spec: Any) -> list[Request]:
        """Return the creation of a quota, and a request that waits until it is in force.

        A real server reads quotas by a watch, which may be late but is in order. When a second
        quota, for pods with a deadline, refuses a pod, the first one is in force, too.
        """
        quotas, wanted = f"{NS}/resourcequotas", amounts({"cpu": "1m"}, cpu="1m", memory="1Mi")
        late = pod("late", container(resources=wanted), activeDeadlineSeconds=60)
        return [
            post(quotas, named("rq", spec={"hard": hard, **spec})),
            get(f"{quotas}/rq", until=("status.hard", hard)),
            post(quotas, named("later", spec={"hard": {"pods": "0"}, "scopes": ["Terminating"]})),
            post(f"{PODS}?dryRun=All", late, until=("code", 403)),
        ]

    def bounded(name: str, hard: Object, body: Object, *before: Request) -> Case:
        return case(f"quota-{name}", post(PODS, body), before=[*quota(hard), *before])

    half = {"requests.cpu": "500m", "limits.memory": "512Mi"}
    fine = pod("p", container(resources=amounts({"cpu": "100m"}, cpu="1", memory="128Mi")))
    second = pod("q", container(resources=amounts({"cpu": "450m"}, cpu="1", memory="128Mi")))
    small = container(resources=amounts({"cpu": "100m"}, cpu="1", memory="128Mi"))
    # A real server first updates the pod of its watch cache. If that pod is outdated, the resize
    # is charged twice, because the first try conflicts: then the quota refuses a fitting one.
    cached = get(f"{PODS}/p?resourceVersion=0", until=("status.phase", "Running"))
    return [
        bounded("fits", half, fine),
        bounded("exceeded", half, second, post(PODS, fine)),
        bounded("unspecified", half, pod("p", container())),
        bounded("unspecified-one", half, pod()),
        bounded("pods", {"pods": "1"}, pod("q"), post(PODS, pod())),
        bounded("count", {"count/pods": "1"}, pod("q"), post(PODS, pod())),
        bounded("cpu", {"cpu": "50m"}, pod()),
        # Not of ConfigMaps: a controller creates one in each namespace, before or after the quota.
        case(
            "quota-dry-run",
            post(f"{PODS}?dryRun=All", second),
            before=[*quota(half), post(PODS, fine)],
        ),
        case(
            "quota-status",
            get(
                f"{NS}/resourcequotas/rq",
                until=("status.used", {"requests.cpu": "100m", "limits.memory": "128Mi"}),
            ),
            before=[*quota(half), post(PODS, fine)],
        ),
        case(
            "quota-resize-exceeded",
            patch(RESIZE, resources(amounts({"cpu": "600m"}))),
            before=[*quota(half), *placed(small)],
        ),
        case(
            "quota-resize-fits",
            patch(RESIZE, resources(amounts({"cpu": "500m"}))),
            before=[*quota(half), *placed(small), cached],
        ),
        case(
            "quota-resize-memory",
            patch(RESIZE, resources(amounts(memory="1Gi"))),
            before=[*quota(half), *placed(small)],
        ),
    ]


def budgets() -> list[Case]:
    """Return cases of PodDisruptionBudgets and evictions."""

    def budget(**spec: Any) -> Object:
        return named("b", spec={"selector": {"matchLabels": {"app": "x"}}, **spec})

    def made(name: str, body: Object) -> Case:
        return case(f"budget-{name}", post(f"{PDBS}?dryRun=All", body))

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    path = f"{PODS}/p/eviction"
    labels = {"labels": {"app": "x"}}
    bare = [post(PODS, pod(meta=labels))]
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    live = [
        post(PODS, pod("p", container(), meta=labels, nodeName="nowhere")),
        patch(f"{PODS}/p/status", ready),
    ]
    unready = [
        post(PODS, pod("p", container(), meta=labels, nodeName="nowhere")),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}),
    ]

    def guarded(**spec: Any) -> list[Request]:
        return [
            post(PDBS, budget(**spec)),
            get(f"{PDBS}/b", until=("status.observedGeneration", 1)),
        ]

    healthy = get(f"{PDBS}/b", until=("status.currentHealthy", 1))
    allowed = get(f"{PDBS}/b", until=("status.disruptionsAllowed", 1))
    return [
        made("minimal", budget()),
        made("min-available", budget(minAvailable=1)),
        made("percent", budget(maxUnavailable="50%")),
        made("always-allow", budget(minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")),
        made("no-selector", named("b", spec={"minAvailable": 1})),
        case("evict", post(path, eviction), get(f"{PODS}/p"), before=bare),
        case("evict-missing", post(path, eviction)),
        case(
            "evict-dry-run",
            post(path, {**eviction, "deleteOptions": {"dryRun": ["All"]}}),
            get(f"{PODS}/p"),
            before=bare,
        ),
        case("evict-dry-run-query", post(f"{path}?dryRun=All", eviction), before=bare),
        case("evict-other-name", post(path, {**eviction, "metadata": {"name": "q"}}), before=bare),
        case(
            "evict-other-namespace",
            post(path, {**eviction, "metadata": {"name": "p", "namespace": "q"}}),
            before=bare,
        ),
        case("evict-empty", post(path, {}), before=bare),
        case(
            "evict-v1beta1", post(path, {**eviction, "apiVersion": "policy/v1beta1"}), before=bare
        ),
        case(
            "evict-grace",
            post(path, {**eviction, "deleteOptions": {"gracePeriodSeconds": 5}}),
            get(f"{PODS}/p"),
            before=live,
        ),
        case(
            "evict-wrong-uid",
            post(path, {**eviction, "deleteOptions": {"preconditions": {"uid": "x"}}}),
            before=bare,
        ),
        case("evict-get", get(path), before=bare),
        case(
            "evict-pending-ignores-budget",
            post(path, eviction),
            before=[*bare, *guarded(minAvailable=5)],
        ),
        case(
            "evict-exhausted",
            post(path, eviction),
            before=[*live, *guarded(minAvailable=1), healthy],
        ),
        case(
            "evict-allowed", post(path, eviction), before=[*live, *guarded(minAvailable=0), allowed]
        ),
        case(
            "evict-exhausted-dry-run",
            post(f"{path}?dryRun=All", eviction),
            before=[*live, *guarded(minAvailable=1), healthy],
        ),
        case("evict-unready", post(path, eviction), before=[*unready, *guarded(minAvailable=1)]),
        case(
            "evict-unready-always-allow",
            post(path, eviction),
            before=[*unready, *guarded(minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")],
        ),
        case(
            "evict-two-budgets",
            post(path, eviction),
            before=[
                *live,
                *guarded(minAvailable=0),
                post(PDBS, {**budget(minAvailable=0), "metadata": {"name": "c"}}),
            ],
        ),
        case(
            "evict-other-labels",
            post(path, eviction),
            before=[post(PODS, pod()), *guarded(minAvailable=1)],
        ),
        case(
            "budget-status-bare",
            get(f"{PDBS}/b", until=("status.currentHealthy", 1)),
            before=[*live, *guarded(minAvailable=1)],
        ),
        case("budget-status-no-pods", get(f"{PDBS}/b"), before=guarded(minAvailable=1)),
    ]


CASES = [*limits(), *quotas(), *budgets()]
