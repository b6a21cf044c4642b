"""Sums over a pod's containers, QoS classes, LimitRanges and quotas."""

from typing import Any

import pytest

from common.quantity import QuantityError
from sandbox.admission.limit_ranger import ANNOTATION, apply_defaults, broken_bounds
from sandbox.admission.quotas import charged, exceeded, in_scope, missing_resources, pod_usage
from sandbox.objects.pod_resources import (
    QosClass,
    canonical_text,
    complete_pod_resources,
    pod_limits,
    pod_requests,
    qos_class,
)
from sandbox.times import rfc3339
from sandbox.virtual_time import EPOCH


def container(name: str = "app", *, cpu: str = "", limit: str = "", **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if cpu:
        resources["requests"] = {"cpu": cpu}
    if limit:
        resources["limits"] = {"cpu": limit}
    return {"name": name, "resources": resources, **more}


def pod(*containers: dict[str, Any], init: Any = (), **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": list(containers), **more.pop("spec", {})}
    if init:
        spec["initContainers"] = list(init)
    return {"metadata": {"name": "p"}, "spec": spec, **more}


def reported(cpu: str, allocated: str = "", *, reason: str = "") -> dict[str, Any]:
    one: dict[str, Any] = {"name": "app", "resources": {"requests": {"cpu": cpu}}}
    if allocated:
        one["allocatedResources"] = {"cpu": allocated}
    conditions = [{"type": "PodResizePending", "reason": reason}] if reason else []
    return {"status": {"containerStatuses": [one], "conditions": conditions}}


SIDECAR = {"restartPolicy": "Always"}
SUMS: list[tuple[str, dict[str, Any], str]] = [
    ("containers add up", pod(container(cpu="1"), container("b", cpu="500m")), "1500m"),
    (
        "a small init container doesn't count",
        pod(container(cpu="1"), init=[container("i", cpu="900m")]),
        "1",
    ),
    ("a large init container counts", pod(container(cpu="1"), init=[container("i", cpu="2")]), "2"),
    (
        "init containers run one after the other",
        pod(container(), init=[container("i", cpu="2"), container("j", cpu="1")]),
        "2",
    ),
    ("a sidecar adds", pod(container(cpu="1"), init=[container("s", cpu="1", **SIDECAR)]), "2"),
    (
        "an init container beside an earlier sidecar",
        pod(container(cpu="1"), init=[container("s", cpu="1", **SIDECAR), container("i", cpu="3")]),
        "4",
    ),
    (
        "an init container before a sidecar",
        pod(container(cpu="1"), init=[container("i", cpu="3"), container("s", cpu="1", **SIDECAR)]),
        "3",
    ),
    ("overhead", pod(container(cpu="1"), spec={"overhead": {"cpu": "250m"}}), "1250m"),
    (
        "pod-level request",
        pod(container(cpu="1"), spec={"resources": {"requests": {"cpu": "3"}}}),
        "3",
    ),
    ("actual above spec", pod(container(cpu="1"), **reported("2")), "2"),
    ("allocated above spec", pod(container(cpu="1"), **reported("1", "3")), "3"),
    (
        "a deferred resize counts",
        pod(container(cpu="4"), **reported("1", "1", reason="Deferred")),
        "4",
    ),
    (
        "an infeasible resize doesn't count",
        pod(container(cpu="4"), **reported("1", "1", reason="Infeasible")),
        "1",
    ),
]


@pytest.mark.parametrize(("name", "pod_", "want"), SUMS, ids=[case[0] for case in SUMS])
def test_requests_with_status(name: str, pod_: dict[str, Any], want: str) -> None:
    assert str(pod_requests(pod_, with_status=True)["cpu"].canonical()) == want


def test_limits_ignore_allocations() -> None:
    there = pod(container(limit="1"), **reported("5", "5"))
    assert str(pod_limits(there, with_status=True)["cpu"]) == "1"


def limited_container(cpu: str, memory: str, *, asks: str = "") -> dict[str, Any]:
    limits = {"cpu": cpu, "memory": memory}
    return {
        "name": "c",
        "resources": {"limits": limits, "requests": {**limits, "cpu": asks or cpu}},
    }


CLASSES: list[tuple[str, dict[str, Any], QosClass]] = [
    ("no requests", pod(container()), QosClass.BEST_EFFORT),
    ("zeros", pod(container(cpu="0")), QosClass.BEST_EFFORT),
    ("a request", pod(container(cpu="1")), QosClass.BURSTABLE),
    ("all equal", pod(limited_container("1", "1Gi")), QosClass.GUARANTEED),
    ("equal by value", pod(limited_container("1", "1Gi", asks="1000m")), QosClass.GUARANTEED),
    ("one lower", pod(limited_container("1", "1Gi", asks="999m")), QosClass.BURSTABLE),
    ("no memory limit", pod(container(cpu="1", limit="1")), QosClass.BURSTABLE),
    (
        "one container without resources",
        pod(limited_container("1", "1Gi"), container("b")),
        QosClass.BURSTABLE,
    ),
    (
        "an init container without resources",
        pod(limited_container("1", "1Gi"), init=[container("i")]),
        QosClass.BURSTABLE,
    ),
    (
        "pod-level resources",
        pod(container(), spec={"resources": limited_container("1", "1Gi")["resources"]}),
        QosClass.GUARANTEED,
    ),
]


@pytest.mark.parametrize(("name", "pod_", "want"), CLASSES, ids=[case[0] for case in CLASSES])
def test_qos_class(name: str, pod_: dict[str, Any], want: QosClass) -> None:
    assert qos_class(pod_) is want


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        ("0.25", "250m"),
        ("1000m", "1"),
        (2, "2"),
        ("65536Ki", "64Mi"),
        ("1.5Gi", "1536Mi"),
        ("1e8", "100e6"),
        ("100500u", "101m"),
        ("100000000.5", "100000000500m"),
    ],
)
def test_canonical_text(raw: str | int, want: str) -> None:
    assert canonical_text(raw) == want


def test_a_limit_without_request_becomes_the_request() -> None:
    there = pod(container(limit="1000m"))
    complete_pod_resources(there)
    complete_pod_resources(there)
    assert there["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "1"},
    }
    with pytest.raises(QuantityError):
        complete_pod_resources(pod(container(cpu="lots")))


def limit_range(**item: Any) -> dict[str, Any]:
    return {"spec": {"limits": [{"type": "Container", **item}]}}


def test_defaults_of_a_limit_range_do_not_replace_values() -> None:
    there = pod(container(cpu="1"), init=[container("i")])
    bounds = limit_range(default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
    apply_defaults(there, [bounds])
    assert there["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    assert there["metadata"]["annotations"] == {
        ANNOTATION: "LimitRanger plugin set: cpu, memory limit for container app; "
        "cpu request for init container i; cpu, memory limit for init container i"
    }


BOUNDS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("at the minimum", container(cpu="1"), {"min": {"cpu": "1"}}, ""),
    (
        "below the minimum",
        container(cpu="999m"),
        {"min": {"cpu": "1"}},
        "minimum cpu usage per Container is 1, but request is 999m",
    ),
    (
        "no request",
        container(),
        {"min": {"cpu": "1"}},
        "minimum cpu usage per Container is 1.  No request is specified",
    ),
    ("at the maximum", container(limit="1"), {"max": {"cpu": "1"}}, ""),
    (
        "above the maximum",
        container(limit="1001m"),
        {"max": {"cpu": "1"}},
        "maximum cpu usage per Container is 1, but limit is 1001m",
    ),
    (
        "no limit",
        container(),
        {"max": {"cpu": "1"}},
        "maximum cpu usage per Container is 1.  No limit is specified",
    ),
    ("at the ratio", container(cpu="1", limit="2"), {"maxLimitRequestRatio": {"cpu": "2"}}, ""),
    (
        "above the ratio",
        container(cpu="1", limit="2001m"),
        {"maxLimitRequestRatio": {"cpu": "2"}},
        "cpu max limit to request ratio per Container is 2, but provided ratio is 2.001000",
    ),
    (
        "two violations",
        container(cpu="1", limit="9"),
        {"min": {"cpu": "2"}, "max": {"cpu": "8"}},
        (
            "[minimum cpu usage per Container is 2, but request is 1, "
            "maximum cpu usage per Container is 8, but limit is 9]"
        ),
    ),
]


@pytest.mark.parametrize(("name", "container", "item", "want"), BOUNDS, ids=[c[0] for c in BOUNDS])
def test_bounds(name: str, container: dict[str, Any], item: dict[str, Any], want: str) -> None:
    assert broken_bounds(pod(container), limit_range(**item)) == want


def quota(hard: dict[str, str], used: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def test_a_quota_permits_pods_up_to_its_limit() -> None:
    one = quota({"requests.cpu": "1", "pods": "5"}, {"requests.cpu": "500m", "pods": "1"})
    fits = pod_usage(pod(container(cpu="500m")), EPOCH)
    assert exceeded(one, fits) == ""
    assert charged(one, fits) == {"requests.cpu": "1", "pods": "2"}
    assert exceeded(one, pod_usage(pod(container(cpu="501m")), EPOCH)) == (
        "exceeded quota: q, requested: requests.cpu=501m, used: requests.cpu=500m, "
        "limited: requests.cpu=1"
    )
    assert exceeded(quota({"pods": "5"}, {}), fits) == (
        "status unknown for quota: q, resources: pods"
    )


def test_a_quota_requires_requests_of_its_resources() -> None:
    one = quota({"limits.memory": "1Gi", "requests.cpu": "1", "pods": "1"}, {})
    assert missing_resources(one, pod(container("b", cpu="1"), container("a"))) == (
        "limits.memory for: a,b; requests.cpu for: a"
    )


@pytest.mark.parametrize(
    ("scope", "want"),
    [("BestEffort", False), ("NotBestEffort", True), ("Terminating", False)],
)
def test_scopes(scope: str, want: object) -> None:
    assert in_scope(quota({}, {}, scopes=[scope]), pod(container(cpu="1"))) is want


def test_a_pod_that_has_ended_counts_only_as_an_object() -> None:
    ended = pod(container(cpu="1"), status={"phase": "Succeeded"})
    assert set(pod_usage(ended, EPOCH)) == {"count/pods"}
    late = pod(container(cpu="1"))
    late["metadata"]["deletionTimestamp"] = rfc3339(EPOCH)
    assert "requests.cpu" in pod_usage(late, EPOCH)


def test_overhead_does_not_count_under_a_limit_range() -> None:
    there = pod(container(cpu="1", limit="1"), spec={"overhead": {"cpu": "250m"}})
    bound = {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}
    assert not broken_bounds(there, bound)
