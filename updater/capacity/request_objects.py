"""The objects that request capacity, as they are written and read.

Each is labelled as the updater's, and an annotation has what it was created for, so that a process
recognizes the objects of a former one. The VPA owns them.

Source: ``autoscaling.x-k8s.io``, k8s.io/autoscaler cluster-autoscaler/apis.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from common.api.base import Time, Wire
from common.api.core import Container, ResourceRequirements
from common.api.meta import ObjectMeta
from common.api.provisioning import CapacityRequestObject, RequestCondition
from common.api.scheduling import Toleration
from common.scheduling.room import Room
from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand
from updater.capacity.provisioning_plan import CapacityObject, Creation, RequestKind

_Raw = dict[str, Any]

GROUP = "autoscaling.x-k8s.io"
MANAGED_BY = "app.kubernetes.io/managed-by"
RECORD = "vpa-updater/capacity-request"
"""The annotation with the workload and the need that an object was created for."""

_ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
_ATOMIC_SCALE_UP = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
_VALID_SECONDS = "ValidUntilSeconds"
_SPARE_IMAGE = "registry.k8s.io/pause:3.10"  # of a container that the template lacks; never pulled
# A controller may reject an object at first, because it hasn't seen the PodTemplate.
_PERSISTS = timedelta(minutes=1)
_PENDING = "Pending"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Taints of the present state of a node, which every pod tolerates in part; new nodes have none.
_OF_STATE = "node.kubernetes.io/"


class _Record(Wire, frozen=True, kw_only=True):
    """The content of the annotation."""

    kind: str
    name: str
    api_version: str
    cpu: int  # millicores
    memory: int  # bytes
    since: Time


_records = msgspec.json.Decoder(_Record)


def metadata(creation: Creation, *, manager: str) -> _Raw:
    """Return the metadata of an object and of its PodTemplate."""
    demand = creation.demand
    workload = demand.workload
    record = _Record(
        kind=workload.kind,
        name=workload.name,
        api_version=workload.api_version,
        cpu=demand.need.cpu,
        memory=demand.need.memory,
        since=creation.since,
    )
    owner = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "name": demand.vpa_name,
        "uid": demand.vpa,
    }
    return {
        "name": creation.name,
        "namespace": workload.namespace,
        "labels": {MANAGED_BY: manager},
        "annotations": {RECORD: msgspec.json.encode(record).decode()},
        "ownerReferences": [owner],
    }


def pod_template(creation: Creation, owner: Mapping[str, Any], *, manager: str) -> _Raw:
    """Return the PodTemplate: the workload's own, with the resources of the replacement.

    It has also what admission adds to the pods for scheduling: the overhead of a RuntimeClass, node
    labels, required node affinity and tolerations. ``owner`` is the workload as the API server
    stores it.
    """
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    return {
        "metadata": metadata(creation, manager=manager),
        "template": {
            "metadata": {key: meta[key] for key in ("labels", "annotations") if meta.get(key)},
            "spec": _shaped(template["spec"], creation.demand, owner["spec"]),
        },
    }


def request_body(creation: Creation, *, manager: str, timeout: timedelta) -> _Raw:
    """Return the CapacityBuffer or the ProvisioningRequest; its PodTemplate has the same name."""
    reference = {"name": creation.name}
    spec: _Raw
    if creation.kind is RequestKind.BUFFER:
        spec = {
            "provisioningStrategy": _ACTIVE_CAPACITY,
            "podTemplateRef": reference,
            "replicas": creation.count,
        }
    else:
        spec = {
            "provisioningClassName": _ATOMIC_SCALE_UP,
            "podSets": [{"podTemplateRef": reference, "count": creation.count}],
            "parameters": {_VALID_SECONDS: str(int(timeout.total_seconds()))},
        }
    return {"metadata": metadata(creation, manager=manager), "spec": spec}


def resize_patch(count: int) -> _Raw:
    """Return the merge patch that sets the number of chunks of a buffer."""
    return {"spec": {"replicas": count}}


def parse_object(
    kind: RequestKind, found: CapacityRequestObject, *, now: datetime
) -> CapacityObject | None:
    """Return what an object requests; None: its annotation is missing or malformed."""
    meta = found.metadata
    record = _record(meta)
    if record is None:
        return None
    if kind is RequestKind.BUFFER:
        count = found.spec.replicas or 0
    else:
        count = sum(each.count for each in found.spec.pod_sets or ())
    refusal = "" if meta.deletion_timestamp else refusal_of(kind, found, now=now)
    return CapacityObject(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        workload=Controller(meta.namespace, record.kind, record.name, record.api_version),
        need=Room(record.cpu, record.memory, 1),
        count=count,
        since=record.since,
        terminating=meta.deletion_timestamp is not None,
        refusal=refusal,
    )


def refusal_of(kind: RequestKind, found: CapacityRequestObject, *, now: datetime) -> str:
    """Return why the object's controller won't make room; empty if it may.

    A buffer is refused if it was not ready, or not provisioned, for a minute, or if quotas allow no
    chunk. Fewer chunks than requested are no refusal.
    """
    conditions = {each.type: each for each in found.status.conditions or ()}
    if kind is RequestKind.REQUEST:
        refused = [_is(conditions, "Failed", "True"), _is(conditions, "Accepted", "False")]
        return next((_text(each) for each in refused if each is not None), "")
    limited = _is(conditions, "LimitedByQuotas", "True")
    if limited is not None and found.status.replicas == 0:
        return _text(limited)
    for name in ("ReadyForProvisioning", "Provisioning"):
        false = _is(conditions, name, "False")
        if false is None or false.reason == _PENDING:
            continue
        since = false.last_transition_time or found.metadata.creation_timestamp
        if since is None or now - since >= _PERSISTS:
            return _text(false)
    return ""


def _is(
    conditions: Mapping[str, RequestCondition], name: str, status: str
) -> RequestCondition | None:
    found = conditions.get(name)
    return found if found is not None and found.status == status else None


def _text(condition: RequestCondition) -> str:
    return condition.message or condition.reason or condition.type


def _record(meta: ObjectMeta) -> _Record | None:
    try:
        return _records.decode((meta.annotations or {}).get(RECORD, ""))
    except (msgspec.DecodeError, UnicodeError):
        return None


def _shaped(spec: Mapping[str, Any], demand: CapacityDemand, owner: Mapping[str, Any]) -> _Raw:
    """Return the spec with the resources and volumes of the replacement."""
    wanted = demand.spec
    shaped = dict(spec)
    shaped["containers"] = _with_resources(spec.get("containers") or (), wanted.containers)
    inits = _with_resources(spec.get("initContainers") or (), wanted.init_containers or ())
    if inits:
        shaped["initContainers"] = inits
    shaped |= _scheduling(spec, demand)
    if wanted.resources is not None:
        shaped["resources"] = (spec.get("resources") or {}) | _raw(wanted.resources)
    volumes = _claimed_volumes(owner, demand)
    if volumes:
        names = {each["name"] for each in volumes}
        others = [each for each in spec.get("volumes") or () if each["name"] not in names]
        shaped["volumes"] = [*volumes, *others]
    return shaped


def _scheduling(spec: Mapping[str, Any], demand: CapacityDemand) -> _Raw:
    """Return the parts of the spec by which the pods differ from their template."""
    rules, found = demand.rules, _Raw()
    if demand.spec.overhead:
        found["overhead"] = dict(demand.spec.overhead)
    if rules.node_selector:
        found["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **dict(rules.node_selector)}
    if rules.terms is not None:
        affinity = spec.get("affinity") or {}
        terms = [msgspec.to_builtins(term) for term in rules.terms]
        of_nodes = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: {"nodeSelectorTerms": terms}}
        found["affinity"] = {**affinity, "nodeAffinity": of_nodes}
    stored = spec.get("tolerations") or ()
    known = {msgspec.convert(each, Toleration) for each in stored}
    added = [
        msgspec.to_builtins(each)
        for each in rules.tolerations
        if each not in known and not each.key.startswith(_OF_STATE)
    ]
    if added:
        found["tolerations"] = [*stored, *added]
    return found


def _with_resources(
    stored: Sequence[Mapping[str, Any]], wanted: Sequence[Container]
) -> Sequence[_Raw]:
    """Return the containers of the replacement; webhooks may add some to those of the template."""
    by_name = {each["name"]: each for each in stored}
    order = [*(each.name for each in wanted), *by_name]
    specs = {each.name: each for each in wanted}
    return [_container(by_name.get(name), specs.get(name)) for name in dict.fromkeys(order)]


def _container(stored: Mapping[str, Any] | None, wanted: Container | None) -> _Raw:
    if wanted is None:
        return dict(stored or {})
    found: _Raw = dict(stored) if stored is not None else _added(wanted)
    if wanted.resources is not None:
        found["resources"] = (found.get("resources") or {}) | _raw(wanted.resources)
    return found


def _added(wanted: Container) -> _Raw:
    added: _Raw = {"name": wanted.name, "image": _SPARE_IMAGE}
    if wanted.restart_policy is not None:
        added["restartPolicy"] = wanted.restart_policy
    return added


def _raw(resources: ResourceRequirements) -> _Raw:
    parts = {"requests": resources.requests, "limits": resources.limits}
    return {name: dict(each) for name, each in parts.items() if each}


def _claimed_volumes(owner: Mapping[str, Any], demand: CapacityDemand) -> Sequence[_Raw]:
    """Return the volumes of the claim templates of a StatefulSet.

    The claims of the pod bind its replacements to their zone. Without a pod they are empty.
    """
    if demand.workload.kind != "StatefulSet":
        return ()
    names = [each["metadata"]["name"] for each in owner.get("volumeClaimTemplates") or ()]
    if not demand.pod:
        return [{"name": name, "emptyDir": {}} for name in names]
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{demand.pod}"}}
        for name in names
    ]
