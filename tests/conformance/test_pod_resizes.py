"""Recorded resizes, and pods created or updated in the ordinary way, against the pure rules.

Each case runs through the same steps as a request: patch, defaults, mutating admission, reset,
rules, validating admission.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from recorded_cases import Recorded, answer, recorded, refusal

from common.quantity import QuantityError
from sandbox.admission import Admission, AdmissionRequest, Operation, UserInfo
from sandbox.errors import ApiError, invalid
from sandbox.patching import apply_patch, copied, undecodable
from sandbox.pod_resources import complete_pod_resources, qos_class
from sandbox.pod_rules import pod_resource_causes
from sandbox.resizing import prepare_resize, validate_pod_update, validate_resize
from sandbox.resources import LIMIT_RANGES, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS
from sandbox.store import Store
from sandbox.version import KubernetesVersion

NOW = datetime(2026, 11, 21, 8, 25, tzinfo=UTC)
USER = UserInfo(username="admin")

OUT_OF_SCOPE = {
    "resize-apply": "server-side apply is refused by the sandbox (415)",
    "resize-apply-conflict": "server-side apply is refused by the sandbox (415)",
    "resize-apply-force": "server-side apply is refused by the sandbox (415)",
    "resize-apply-no-field-manager": "server-side apply is refused by the sandbox (415)",
    "resize-get": "reads the store: a case for the whole server",
    "resize-not-found": "reads the store: a case for the whole server",
    "resize-patch-stale-version": "versions are the write path's: a case for the whole server",
    "resize-patch-wrong-uid": "the uid is the write path's: a case for the whole server",
    "resize-put": "the recording has no state before a PUT: a case for the whole server",
    "resize-put-stale": "versions are the write path's: a case for the whole server",
    "resize-put-without-version": "the recording has no state before a PUT",
    "resize-rbac-denied": "the sandbox has no authorization",
    "resize-vap-denied-forbidden": "ValidatingAdmissionPolicies are not simulated",
    "resize-vap-denied-invalid": "ValidatingAdmissionPolicies are not simulated",
    "pod-patch-annotation": "the recording has no state before: a case for the whole server",
    "pod-patch-annotation-json-patch-missing-parent": "see tests/unit/sandbox/test_patching.py",
    "pod-patch-status-conditions-delete-directive": "the recording has no state before",
}

FEATURES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]


def node(name: str, *, system: str = "linux", cpu: str = "4") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/os": system} if system else {}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi"},
            "declaredFeatures": FEATURES if name == "featured" else [],
        },
    }


def cluster() -> Store:
    """The nodes and bounds that the recordings were made with."""
    store = Store()
    for name in ("golden", "limited", "quota"):
        store.create(NAMESPACES, {"metadata": {"name": name}})
    for one in (
        node("manual"),
        node("featured"),
        node("win", system="windows"),
        node("nolabel", system=""),
        node("shrink", cpu="1"),
    ):
        store.create(NODES, one)
    store.create(
        LIMIT_RANGES,
        {
            "metadata": {"name": "lr", "namespace": "limited"},
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "max": {"cpu": "500m", "memory": "1Gi"},
                        "min": {"cpu": "50m", "memory": "16Mi"},
                        "maxLimitRequestRatio": {"memory": "4"},
                        "default": {"cpu": "400m", "memory": "256Mi"},
                        "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
                    },
                    {"type": "Pod", "max": {"cpu": "600m"}},
                ]
            },
        },
    )
    return store


def pod_before(case: Recorded) -> dict[str, Any]:
    """The pod right before the request, with the status that the recording's notes tell."""
    before = case.raw["before"]
    spec = copied(before["spec"])
    name, namespace = case.path[6], case.path[4]
    if case.minor == 33:
        spec.pop("resources", None)  # dropped at creation: PodLevelResources is off
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": "u",
        "resourceVersion": "1",
    }
    meta |= {"generation": before["generation"], "labels": {"app": name}}
    if case.case == "resize-deployment-pod":
        meta["labels"] = case.response["metadata"]["labels"]
    if case.case == "resize-mirror-pod":
        meta["annotations"] = {"kubernetes.io/config.mirror": "x"}
    if case.case == "resize-windows-pod":
        spec["os"] = {"name": "windows"}
    if case.case == "resize-restart-never":
        spec["restartPolicy"] = "Never"
    running = before["phase"] == "Running"
    reported = []
    for index, container in enumerate(spec["containers"]):
        one: dict[str, Any] = {"name": container["name"]}
        one["state"] = {"running": {}} if running else {"terminated": {}}
        silent = {
            "resize-running-without-status-resources": 0,
            "resize-running-second-container-without-status-resources": 1,
        }.get(case.case)
        if index != silent:
            one["resources"] = container.get("resources") or {}
        reported.append(one)
    status = {"phase": before["phase"], "qosClass": before["qosClass"]}
    if before["phase"] != "Pending":
        status["containerStatuses"] = reported
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": {"restartPolicy": "Always", **spec},
        "status": status,
    }


def quota(used_cpu: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "rq", "namespace": "quota"},
        "spec": {"hard": {"requests.cpu": "500m", "limits.memory": "512Mi"}},
        "status": {
            "hard": {"requests.cpu": "500m", "limits.memory": "512Mi"},
            "used": {"requests.cpu": used_cpu, "limits.memory": "128Mi"},
        },
    }


def body_of(case: Recorded) -> bytes:
    if case.case == "resize-json-patch-too-many-operations":
        return (
            b"[" + b",".join([b'{"op":"test","path":"/metadata/name","value":"x"}'] * 10_001) + b"]"
        )
    return case.encoded


async def resize(case: Recorded, store: Store) -> dict[str, Any]:
    """Every step of a resize, in the order of the write path."""
    old = pod_before(case)
    new = apply_patch(case.content_type, old, body_of(case), resource=PODS)
    try:
        complete_pod_resources(new)
    except QuantityError as error:
        raise undecodable(case.encoded, error.problem) from error
    admission = Admission(store, case.version, FixedClock())
    asked = AdmissionRequest(
        operation=Operation.UPDATE,
        resource=PODS,
        subresource="resize",
        user=USER,
        namespace=case.path[4],
        name=case.path[6],
        object=new,
        old_object=old,
        dry_run=case.dry_run,
    )
    mutated = await admission.mutate(asked)
    assert mutated is not None
    prepared = prepare_resize(old, mutated, case.version)
    validate_resize(old, prepared, case.version)
    asked.object = prepared
    await admission.validate(asked)
    return prepared


async def create(case: Recorded, store: Store) -> dict[str, Any]:
    """The steps of a pod's creation that the recorded cases are about."""
    pod = copied(case.body)
    pod["metadata"] |= {"namespace": case.path[4], "generation": 1}
    pod["spec"].setdefault("restartPolicy", "Always")
    complete_pod_resources(pod)
    admission = Admission(store, case.version, FixedClock())
    asked = AdmissionRequest(
        operation=Operation.CREATE,
        resource=PODS,
        user=USER,
        namespace=case.path[4],
        name=pod["metadata"]["name"],
        object=pod,
    )
    mutated = await admission.mutate(asked)
    assert mutated is not None
    mutated["status"] = {"phase": "Pending", "qosClass": qos_class(mutated)}
    causes = pod_resource_causes(mutated, case.version)
    if causes:
        raise invalid("Pod", asked.name, causes)
    await admission.validate(asked)
    return mutated


class FixedClock:
    def now(self) -> datetime:
        return NOW


def replay(case: Recorded) -> dict[str, Any]:
    """What we answer; the same shape as ``answer`` of what was recorded."""
    store = cluster()
    used = {"resize-quota-increase-again": "50m", "resize-quota-decrease": "400m"}
    cpu = used.get(case.case, "400m" if case.case.startswith("pod-create") else "100m")
    store.create(RESOURCE_QUOTAS, quota(cpu))
    run = create if case.case.startswith("pod-create") else resize
    try:
        return answer(asyncio.run(run(case, store)))
    except ApiError as error:
        return refusal(error)


@pytest.mark.parametrize("minor", [33, 35, 36])
def test_recorded_resizes_and_creations(minor: int) -> None:
    cases = [*recorded("resize-", minor), *recorded("pod-create-", minor)]
    wrong = []
    cases = [case for case in cases if case.case not in OUT_OF_SCOPE]
    assert len(cases) > 70
    for case in cases:
        got, want = replay(case), answer(case.response)
        if case.case.startswith("resize-pod-level") and not case.own:
            # The recording compared containers only; pod-level resources were dropped.
            got, want = got["containers"], want["containers"]
        if got != want:
            wrong.append(f"{case.id}:\n  got  {got}\n  want {want}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("minor", [33, 35, 36])
def test_recorded_ordinary_updates(minor: int) -> None:
    for case in recorded("pod-", minor):
        if case.case not in ("pod-patch-resources", "pod-put-resources"):
            continue
        if case.method == "PUT":
            new = copied(case.body)
            old = copied(new)
            old["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
        else:
            old = pod_before(case)
            new = apply_patch(case.content_type, old, case.encoded, resource=PODS)
        with pytest.raises(ApiError) as caught:
            validate_pod_update(old, new, KubernetesVersion(minor))
        got, want = refusal(caught.value), answer(case.response)
        # A real server appends a diff in a notation of its own.
        assert got["message"] == want["message"].partition("\n")[0], case.id
        assert (got["code"], got["reason"]) == (want["code"], want["reason"]), case.id
        assert got["details"]["causes"][0]["field"] == "spec", case.id


def test_out_of_scope_names_exist() -> None:
    names = {case.case for prefix in ("resize-", "pod-") for case in recorded(prefix)}
    assert set(OUT_OF_SCOPE) <= names
