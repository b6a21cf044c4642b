"""The objects that request capacity, as they are written and read."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from builders import container
from common.api.core import Container, PodSpec, ResourceRequirements
from common.api.provisioning import CapacityRequestObject
from common.api.scheduling import SchedulablePodSpec
from common.scheduling.eligibility import rules_of
from common.scheduling.room import Room
from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand
from updater.capacity.provisioning_plan import Creation, RequestKind
from updater.capacity.request_objects import (
    parse_object,
    pod_template,
    refusal_of,
    request_body,
)

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BUFFER, REQUEST = RequestKind.BUFFER, RequestKind.REQUEST
WEB = Controller("shop", "ReplicaSet", "web", "apps/v1")
MANAGER = "vpa-updater"


def creation(
    *containers: Container,
    workload: Controller = WEB,
    kind: RequestKind = BUFFER,
    pod: str = "",
    **spec: Any,
) -> Creation:
    demand = CapacityDemand(
        workload=workload,
        vpa="uid-of-vpa",
        vpa_name="shop-vpa",
        spec=PodSpec(containers=containers, **spec),
        need=Room(1500, 1 << 30, 1),
        count=2,
        pod=pod,
    )
    return Creation(kind=kind, name="vpa-web-1", demand=demand, count=2, since=NOW)


def owner(spec: dict[str, Any], **others: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}, "name": "ignored"}, "spec": spec}
    return {"spec": {"template": template, **others}}


METADATA = {
    "name": "vpa-web-1",
    "namespace": "shop",
    "labels": {"app.kubernetes.io/managed-by": "vpa-updater"},
    "annotations": {
        "vpa-updater/capacity-request": '{"kind":"ReplicaSet","name":"web","apiVersion":"apps/v1",'
        '"cpu":1500,"memory":1073741824,"since":"2026-11-27T12:00:00Z"}'
    },
    "ownerReferences": [
        {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "name": "shop-vpa",
            "uid": "uid-of-vpa",
        }
    ],
}


def test_a_buffer() -> None:
    assert request_body(creation(), manager=MANAGER, timeout=10 * MINUTE) == {
        "metadata": METADATA,
        "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "podTemplateRef": {"name": "vpa-web-1"},
            "replicas": 2,
        },
    }


def test_a_provisioning_request_is_valid_until_the_time_out() -> None:
    body = request_body(creation(kind=REQUEST), manager=MANAGER, timeout=10 * MINUTE)
    assert body["spec"] == {
        "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        "podSets": [{"podTemplateRef": {"name": "vpa-web-1"}, "count": 2}],
        "parameters": {"ValidUntilSeconds": "600"},
    }


def shape(created: Creation, spec: dict[str, Any], **others: Any) -> dict[str, Any]:
    template = pod_template(created, owner(spec, **others), manager=MANAGER)["template"]
    found: dict[str, Any] = template["spec"]
    return found


def test_a_template_has_the_rules_of_the_workload_and_the_resources_of_the_replacement() -> None:
    spec = {
        "containers": [
            {
                "name": "app",
                "image": "shop:1",
                "resources": {"requests": {"cpu": "1", "gpu": "1"}, "claims": [{"name": "gpu"}]},
            }
        ],
        "nodeSelector": {"disk": "ssd"},
        "priorityClassName": "high",
    }
    created = creation(container(requests={"cpu": "1500m", "gpu": "1"}, limits={"cpu": "3"}))
    template = pod_template(created, owner(spec), manager=MANAGER)
    assert template["metadata"] == METADATA
    assert template["template"]["metadata"] == {"labels": {"app": "web"}}
    assert template["template"]["spec"] == spec | {
        "containers": [
            {
                "name": "app",
                "image": "shop:1",
                "resources": {
                    "requests": {"cpu": "1500m", "gpu": "1"},
                    "limits": {"cpu": "3"},
                    "claims": [{"name": "gpu"}],
                },
            }
        ]
    }


def test_containers_that_webhooks_add_take_room_in_their_order() -> None:
    sidecar = Container(
        name="proxy",
        restart_policy="Always",
        resources=ResourceRequirements(requests={"cpu": "100m"}),
    )
    created = creation(
        container(requests={"cpu": "2"}), init_containers=(sidecar, Container(name="migrate"))
    )
    spec = {
        "containers": [{"name": "app", "image": "shop:1"}],
        "initContainers": [{"name": "migrate", "image": "shop:1"}],
    }
    assert shape(created, spec)["initContainers"] == [
        {
            "name": "proxy",
            "image": "registry.k8s.io/pause:3.10",
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "100m"}},
        },
        {"name": "migrate", "image": "shop:1"},
    ]


def test_a_container_that_the_pod_lacks_stays() -> None:
    spec = {"containers": [{"name": "new", "image": "shop:1"}]}
    assert [each["name"] for each in shape(creation(container()), spec)["containers"]] == [
        "app",
        "new",
    ]


def test_resources_of_the_pod_as_a_whole() -> None:
    created = creation(resources=ResourceRequirements(requests={"cpu": "4"}))
    assert shape(created, {"containers": []})["resources"] == {"requests": {"cpu": "4"}}


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IN_ZONE = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}}
GPU = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
TEAM = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
PREFERRED: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": []}
UNREACHABLE = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
ADDED: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("nothing", {}, {}, {}),
    ("the overhead of a RuntimeClass", {}, {"overhead": {"cpu": "250m"}}, {}),
    ("a node label", {}, {"nodeSelector": {"team": "a"}}, {}),
    (
        "another node label",
        {"nodeSelector": {"disk": "ssd"}},
        {"nodeSelector": {"disk": "ssd", "team": "a"}},
        {},
    ),
    ("required node affinity", {}, {"affinity": IN_ZONE}, {}),
    (
        "required node affinity beside other affinity",
        {"affinity": {"podAntiAffinity": {}, "nodeAffinity": PREFERRED}},
        {"affinity": IN_ZONE},
        {
            "affinity": {
                "podAntiAffinity": {},
                "nodeAffinity": PREFERRED | IN_ZONE["nodeAffinity"],
            }
        },
    ),
    (
        "a toleration",
        {"tolerations": [GPU]},
        {"tolerations": [GPU, UNREACHABLE, TEAM]},
        {"tolerations": [GPU, TEAM]},
    ),
    (
        "tolerations of the state of nodes alone",
        {"tolerations": [GPU]},
        {"tolerations": [GPU, UNREACHABLE]},
        {"tolerations": [GPU]},
    ),
]


@pytest.mark.parametrize(
    ("stored", "of_pod", "wanted"), [pytest.param(*case, id=name) for name, *case in ADDED]
)
def test_what_admission_adds_to_pods_for_scheduling(
    stored: dict[str, Any], of_pod: dict[str, Any], wanted: dict[str, Any]
) -> None:
    given = msgspec.convert(of_pod, SchedulablePodSpec)
    created = creation(overhead=given.overhead)
    demand = replace(created.demand, rules=rules_of(given))
    shaped = shape(replace(created, demand=demand), stored | {"containers": []})
    sent = msgspec.json.decode(msgspec.json.encode(shaped))
    assert sent == stored | of_pod | wanted | {"containers": []}


@pytest.mark.parametrize(
    ("pod", "volume"),
    [
        ("db-2", {"persistentVolumeClaim": {"claimName": "data-db-2"}}),
        ("", {"emptyDir": {}}),
    ],
    ids=["of the pod", "without a pod"],
)
def test_claims_of_a_stateful_set(pod: str, volume: dict[str, Any]) -> None:
    created = creation(workload=Controller("shop", "StatefulSet", "db", "apps/v1"), pod=pod)
    spec = {
        "containers": [],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
    }
    claims = [{"metadata": {"name": "data"}}]
    assert shape(created, spec, volumeClaimTemplates=claims)["volumes"] == [
        {"name": "data", **volume},
        {"name": "tmp", "emptyDir": {}},
    ]


# Reading


def stored(kind: RequestKind, **changes: Any) -> CapacityRequestObject:
    body = request_body(creation(kind=kind), manager=MANAGER, timeout=10 * MINUTE)
    body["metadata"] |= {"uid": "uid-1", "creationTimestamp": "2026-11-27T11:00:00Z"}
    for name, value in changes.items():
        body[name] = {**body.get(name, {}), **value}
    return msgspec.convert(body, CapacityRequestObject)


@pytest.mark.parametrize("kind", RequestKind)
def test_a_process_reads_what_another_wrote(kind: RequestKind) -> None:
    found = parse_object(kind, stored(kind), now=NOW)
    assert found is not None
    assert (found.workload, found.need) == (WEB, Room(1500, 1 << 30, 1))
    assert (found.name, found.uid, found.count) == ("vpa-web-1", "uid-1", 2)
    assert (found.since, found.terminating, found.refusal) == (NOW, False, "")


@pytest.mark.parametrize(
    "annotations",
    [None, {}, {"vpa-updater/capacity-request": "{}"}, {"vpa-updater/capacity-request": "\ud800"}],
    ids=["no annotations", "no annotation of ours", "fields are missing", "no JSON"],
)
def test_an_object_without_a_readable_annotation(annotations: dict[str, str] | None) -> None:
    written = stored(BUFFER)
    meta = msgspec.structs.replace(written.metadata, annotations=annotations)
    assert parse_object(BUFFER, msgspec.structs.replace(written, metadata=meta), now=NOW) is None


def test_an_object_that_is_being_deleted_refuses_nothing() -> None:
    refused = {"conditions": [{"type": "Failed", "status": "True", "message": "no"}]}
    deleted = {"deletionTimestamp": "2026-11-27T12:00:00Z"}
    found = parse_object(REQUEST, stored(REQUEST, status=refused, metadata=deleted), now=NOW)
    assert found is not None
    assert (found.terminating, found.refusal) == (True, "")


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    kind: RequestKind = BUFFER
    type: str = "ReadyForProvisioning"
    status: str = "False"
    reason: str = "error"
    message: str = "no template"
    lasts: timedelta | None = MINUTE
    replicas: int | None = None
    refusal: str = "no template"


PROVISIONING = replace(Case(id=""), kind=REQUEST, lasts=timedelta())

CASES = [
    Case(id="not ready for a minute"),
    Case(id="not ready for less than a minute", lasts=0.99 * MINUTE, refusal=""),
    Case(id="not ready, and since the creation if there is no time", lasts=None),
    Case(id="ready", status="True", refusal=""),
    Case(id="pending", reason="Pending", refusal=""),
    Case(id="not provisioned for a minute", type="Provisioning"),
    Case(id="provisioned", type="Provisioning", status="True", refusal=""),
    Case(id="no message", message="", refusal="error"),
    Case(id="neither message nor reason", message="", reason="", refusal="ReadyForProvisioning"),
    Case(
        id="quotas allow no chunk",
        type="LimitedByQuotas",
        status="True",
        replicas=0,
        lasts=timedelta(),
    ),
    Case(
        id="quotas allow one chunk", type="LimitedByQuotas", status="True", replicas=1, refusal=""
    ),
    Case(id="not limited by quotas", type="LimitedByQuotas", replicas=0, refusal=""),
    replace(PROVISIONING, id="failed", type="Failed", status="True"),
    replace(PROVISIONING, id="not failed", type="Failed", refusal=""),
    replace(PROVISIONING, id="not accepted", type="Accepted"),
    replace(PROVISIONING, id="accepted", type="Accepted", status="True", refusal=""),
    replace(PROVISIONING, id="not provisioned yet", type="Provisioned", refusal=""),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_refusals(case: Case) -> None:
    condition: dict[str, Any] = {
        "type": case.type,
        "status": case.status,
        "reason": case.reason,
        "message": case.message,
    }
    if case.lasts is not None:
        condition["lastTransitionTime"] = (NOW - case.lasts).isoformat()
    status: dict[str, Any] = {"conditions": [condition]}
    if case.replicas is not None:
        status["replicas"] = case.replicas
    assert refusal_of(case.kind, stored(case.kind, status=status), now=NOW) == case.refusal
