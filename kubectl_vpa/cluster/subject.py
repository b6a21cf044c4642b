"""The object that a person asks about: a VPA, a pod or a workload."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from common.api.core import Pod
from common.errors import ConfigError
from common.kube.endpoints import EVENTS, PODS
from common.target.controlling import target_key
from common.target.owners import WELL_KNOWN_KINDS, controller_of
from kubectl_vpa.cluster.fleet import Fleet
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.vpa_status import VpaFacts, live_pods
from kubectl_vpa.results.why import EventResult

_VPA = "VerticalPodAutoscaler"
_POD = "Pod"
_SHORT = {
    "cj": "CronJob",
    "deploy": "Deployment",
    "ds": "DaemonSet",
    "po": _POD,
    "rc": "ReplicationController",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "vpa": _VPA,
    "vpas": _VPA,
}
_KINDS = {kind.lower(): kind for kind in (*WELL_KNOWN_KINDS, _POD, _VPA)}
_ABOUT_VPAS = re.compile("VPA|InPlaceResize|Evict")
_MOST_EVENTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object, and the VPA that is concerned; without one ``facts`` is None."""

    kind: str
    name: str
    facts: VpaFacts | None
    problem: str = ""  # why no VPA is concerned


def parse(text: str) -> tuple[str, str]:
    """Return kind and name of ``KIND/NAME``; without a kind it is empty.

    The kind of a custom resource is returned as it is written.
    """
    kind, slash, name = text.partition("/")
    if not slash:
        return "", text
    plain = kind.partition(".")[0].lower()
    known = _SHORT.get(plain) or _KINDS.get(plain) or _KINDS.get(plain.removesuffix("s"))
    return known or kind, name


async def find(reader: Reader, fleet: Fleet, text: str) -> Subject:
    """Return the subject that a text names: a VPA, else a pod, else a workload.

    Raises:
        ConfigError: there is none.
    """
    kind, name = parse(text)
    if kind in ("", _VPA):
        for vpa in fleet.vpas:
            if vpa.metadata.name == name:
                return Subject(kind=_VPA, name=name, facts=fleet.facts_of(vpa))
    if kind in ("", _POD) and (pod := await reader.get(PODS, name)) is not None:
        return _of_pod(fleet, pod)
    if kind not in (_VPA, _POD) and (found := _of_workload(fleet, kind, name)) is not None:
        return found
    wanted = f"no {kind}" if kind else "no VPA, pod or workload of a VPA"
    raise ConfigError(f"there is {wanted} named {name} in namespace {reader.namespace}")


def _of_workload(fleet: Fleet, kind: str, name: str) -> Subject | None:
    for vpa in fleet.vpas:
        target = vpa.spec.target_ref
        facts = fleet.facts_of(vpa)
        if target is None or target.name != name or facts.controlled_by:
            continue
        if kind in ("", target.kind):
            return Subject(kind=target.kind, name=name, facts=facts)
    if kind in WELL_KNOWN_KINDS:
        return Subject(kind=kind, name=name, facts=None, problem=f"No VPA targets {kind} {name}.")
    return None


def _of_pod(fleet: Fleet, pod: Pod) -> Subject:
    """Return the pod with its VPA; the facts are those of this pod."""
    name, controller = pod.metadata.name, controller_of(pod.metadata)
    if controller is None:
        problem = "The pod has no controller, so no VPA can control it."
        return Subject(kind=_POD, name=name, facts=None, problem=problem)
    key = fleet.owners.topmost(controller.key)
    for vpa in fleet.vpas:
        facts = fleet.facts_of(vpa)
        if target_key(vpa) == key and not facts.controlled_by:
            own = PodGroups()
            own.add([pod])
            groups = list(own.groups.values())
            mine = replace(facts, groups=groups, live=live_pods(facts))
            return Subject(kind=_POD, name=name, facts=mine)
    problem = f"No VPA targets {key[1]} {key[2]}, which controls the pod."
    return Subject(kind=_POD, name=name, facts=None, problem=problem)


async def events_of(reader: Reader, subject: Subject) -> Sequence[EventResult]:
    """Return the newest Events about updates of the object, the newest first."""
    selector = f"involvedObject.kind={subject.kind},involvedObject.name={subject.name}"
    found = await reader.list(EVENTS.as_dicts(), field_selector=selector)
    results = [
        EventResult(
            time=str(each.get("lastTimestamp") or each.get("eventTime") or ""),
            reason=str(each.get("reason", "")),
            message=str(each.get("message", "")),
        )
        for each in found or ()
        if _ABOUT_VPAS.search(str(each.get("reason", "")))
    ]
    return sorted(results, key=lambda each: each.time, reverse=True)[:_MOST_EVENTS]
