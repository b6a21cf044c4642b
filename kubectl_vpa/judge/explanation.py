"""The state of a VPA in sentences: what is wanted, what prevents it, and what to do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.read_model.recommender import VpaSummary
from kubectl_vpa.results.status import ResourceStatus, StatusReason, VpaResult
from kubectl_vpa.results.why import EventResult, Explanation


@dataclass(frozen=True, slots=True)
class _Advice:
    """What holds for a reason; the texts are formatted with the fields of the status."""

    because: str
    remedy: str = ""
    command: str = ""


_DESCRIBE = "kubectl -n {namespace} describe vpa {name}"
_PODS = "kubectl -n {namespace} get pods -o wide"
_EVENTS = "kubectl -n {namespace} get events --sort-by=.lastTimestamp"
_DOCTOR = "kubectl vpa doctor"

_ADVICE = {
    StatusReason.UNSUPPORTED_TARGET: _Advice(
        "The VPA is not applied: {message}.",
        "Set targetRef to the topmost workload, which must exist and have a scale.",
        _DESCRIBE,
    ),
    StatusReason.UNREADABLE: _Advice(
        "It is not applied, because {message}.",
        "Correct the quantity in the VPA's policy or in the pods.",
        _DESCRIBE,
    ),
    StatusReason.NO_ROOM_IN_POD: _Advice(
        "It is not applied, because {message}.",
        "Raise spec.resources in the pod template, or remove it.",
        "kubectl -n {namespace} edit {workload_kind}/{workload_name}",
    ),
    StatusReason.RESIZE_INFEASIBLE: _Advice(
        "The kubelet refuses the resize: the node can never hold what is wanted.",
        "Lower maxAllowed, or use the mode InPlaceOrRecreate, which evicts the pod.",
        _EVENTS,
    ),
    StatusReason.RESIZE_ERROR: _Advice(
        "The kubelet reports an error while it resizes the pod, and tries again.",
        "See the Events of the pod and the log of the kubelet.",
        _EVENTS,
    ),
    StatusReason.BELOW_MIN_REPLICAS: _Advice(
        "The updater evicts no pod, because an eviction needs more replicas: {message}.",
        "Run more replicas, set spec.updatePolicy.minReplicas to 1 if a short outage is "
        "acceptable, or use the mode InPlaceOrRecreate.",
        "kubectl -n {namespace} patch vpa {name} --type=merge "
        """-p '{{"spec":{{"updatePolicy":{{"minReplicas":1}}}}}}'""",
    ),
    StatusReason.REQUIREMENTS_NOT_MET: _Advice(
        "The updater evicts no pod, because the VPA's evictionRequirements don't hold for this "
        "change.",
        "Wait for a change in the required direction, or remove the requirement.",
        "kubectl -n {namespace} get vpa {name} -o yaml",
    ),
    StatusReason.DISRUPTION_BUDGET: _Advice(
        "The API server refuses evictions now: {message}.",
        "Run more replicas, or allow a disruption in the budget. An in-place update needs no "
        "eviction.",
        "kubectl -n {namespace} get poddisruptionbudgets",
    ),
    StatusReason.HELD_UP: _Advice(
        "The updater changes nothing at present. It reports: {message}.", "{unblock}", _DOCTOR
    ),
    StatusReason.OTHER_VPA: _Advice(
        "This VPA changes nothing, because {message} and is older.",
        "Delete one of the two VPAs, or set the mode of the other to Off.",
        "kubectl -n {namespace} get vpa",
    ),
    StatusReason.AUTOSCALED_HORIZONTALLY: _Advice(
        "{message}. When the VPA changes requests, the number of replicas changes, too.",
        "Let the HPA scale on another metric, or leave the resource out of controlledResources.",
        "kubectl -n {namespace} get hpa",
    ),
    StatusReason.NOT_PROCESSED: _Advice(
        "No recommender has written a status, so there is no recommendation.",
        "Make sure that a recommender runs, and that spec.recommenders of the VPA names it.",
        _DOCTOR,
    ),
    StatusReason.NEW: _Advice(
        "The VPA is new. A recommender writes the first status within a minute or two.",
        "Wait.",
        "kubectl -n {namespace} get vpa {name} --watch",
    ),
    StatusReason.NO_PODS: _Advice(
        "There is no recommendation, because no pod of the workload has been measured.",
        "Check targetRef and the replicas of the workload.",
        _PODS,
    ),
    StatusReason.FETCHING_HISTORY: _Advice(
        "There is no recommendation yet, because {message}.", "Wait.", _DESCRIBE
    ),
    StatusReason.NO_SAMPLES: _Advice(
        "There is no recommendation yet: {message}.",
        "The metrics API must report the usage of the containers.",
        "kubectl -n {namespace} top pods --containers",
    ),
    StatusReason.PODS_NOT_SEEN: _Advice(
        "You may not list pods, so they can't be compared with the recommendation.",
        "Ask for the permission to list pods.",
        "kubectl -n {namespace} auth can-i list pods",
    ),
    StatusReason.UPDATE_DUE: _Advice(
        "An update is due: {message}. Nothing that a client can see prevents it, so the updater "
        "makes it in its next passes, a part of the pods at a time.",
        "If nothing happens for some minutes, see the Events, and check the installation.",
        _DOCTOR,
    ),
    StatusReason.RESIZE_DEFERRED: _Advice(
        "The node has no room for the resize now. The kubelet tries again when other pods end.",
        "Wait; in the mode InPlaceOrRecreate the pod is evicted after five minutes.",
        _EVENTS,
    ),
    StatusReason.RESIZE_IN_PROGRESS: _Advice(
        "The kubelet is applying the resize.", "Wait.", _EVENTS
    ),
    StatusReason.TOO_YOUNG: _Advice(
        "The pods are within the recommended range, so they are not changed in their first 12 "
        "hours.",
        "Wait, or restart the workload: new pods get the target at once.",
        "kubectl -n {namespace} rollout restart {workload_kind}/{workload_name}",
    ),
    StatusReason.NEXT_POD: _Advice(
        "The mode Initial changes pods only when they are created.",
        "Restart the workload, or choose a mode that changes running pods.",
        "kubectl -n {namespace} rollout restart {workload_kind}/{workload_name}",
    ),
    StatusReason.POSTPONED: _Advice(
        "The updater makes the change later. It reports: {message}.",
        "{unblock}",
        "kubectl vpa plan -n {namespace} {name}",
    ),
    StatusReason.RECOMMENDATION_ONLY: _Advice(
        "The mode Off only recommends: no pod is changed.",
        "Choose another mode to have the recommendation applied.",
        "kubectl -n {namespace} patch vpa {name} --type=merge "
        """-p '{{"spec":{{"updatePolicy":{{"updateMode":"Initial"}}}}}}'""",
    ),
    StatusReason.NOTHING_SCALED: _Advice(
        "The policy of the VPA switches off every container of the pods."
    ),
    StatusReason.NO_PODS_NOW: _Advice(
        "The workload has no pods at the moment. New ones get the target."
    ),
    StatusReason.CLOSE_TO_TARGET: _Advice(
        "The pods are within the recommended range and less than 10 percent from the target, so "
        "they are left unchanged."
    ),
    StatusReason.AT_TARGET: _Advice("The pods have the target. There is nothing to do."),
}


def explain(
    subject: str,
    status: VpaResult,
    *,
    events: Sequence[EventResult] = (),
    summary: VpaSummary | None = None,
) -> Explanation:
    """Return the explanation of a status; ``summary`` is what the recommender knows."""
    fields = {
        "namespace": status.namespace,
        "name": status.name,
        "workload_kind": status.workload_kind.lower(),
        "workload_name": status.workload_name,
        "message": status.message.rstrip("."),
        "unblock": _remedy(status.unblock),
    }
    advice = _ADVICE[status.reason]
    return Explanation(
        subject=subject,
        status=status,
        wanted=" ".join(_wanted(status)),
        because=" ".join((_capital(advice.because.format(**fields)), *_times(status))),
        remedy=advice.remedy.format(**fields),
        command=advice.command.format(**fields),
        events=tuple(events),
        history="" if summary is None else " ".join(_history(summary)),
    )


def without_vpa(subject: str, because: str) -> Explanation:
    """Return the explanation of something that no VPA controls."""
    return Explanation(
        subject=subject,
        status=None,
        wanted="",
        because=because,
        remedy="Create a VPA whose targetRef names the topmost workload.",
        command="",
    )


def _wanted(status: VpaResult) -> Iterator[str]:
    """Yield the sentences on the recommendation."""
    workload = f"{status.workload_kind} {status.workload_name}".strip() or "no workload"
    named = f"VPA {status.name} (mode {status.mode})"
    changes = [
        _change(name, each)
        for name, each in (("cpu", status.cpu), ("memory", status.memory))
        if each.target is not None
    ]
    if not changes:
        yield f"{named} has no recommendation for {workload}."
        return
    yield f"{named} recommends {' and '.join(changes)} for each pod of {workload}."
    if status.pods is not None and status.pods_due:
        yield f"{status.pods_due} of {status.pods} pods differ."


def _change(name: str, each: ResourceStatus) -> str:
    if each.request is None:
        return f"{name} {each.target} (no request is set)"
    if each.drift == 0:
        return f"{name} {each.target}, as requested,"
    return f"{name} {each.target} instead of {each.request}"


def _times(status: VpaResult) -> Iterator[str]:
    if status.since is not None:
        yield f"This holds since {status.since:%Y-%m-%d %H:%M} UTC."
    if status.until is not None:
        yield f"It changes at {status.until:%Y-%m-%d %H:%M} UTC at the earliest."


def _remedy(unblock: str | None) -> str:
    """Return what would end a wait as a sentence."""
    if unblock is None:
        return "See the log of the updater."
    _, nothing, remedy = unblock.partition("Nothing: ")
    return f"Nothing has to be done: {remedy}" if nothing else f"To unblock it: {unblock}"


def _history(summary: VpaSummary) -> Iterator[str]:
    """Yield sentences on the samples and checkpoints of a VPA."""
    for each in summary.containers:
        confidence = min(each.confidence.values(), default=None)
        if each.first_sample is None or each.last_sample is None or confidence is None:
            yield f"The recommender has no samples of container {each.name}."
            continue
        short = "" if confidence >= 1 else " (below 1, so the bounds are wide)"
        yield (
            f"The target of container {each.name} rests on {each.samples} CPU samples from "
            f"{each.first_sample:%Y-%m-%d %H:%M} to {each.last_sample:%Y-%m-%d %H:%M} UTC, "
            f"confidence {confidence:.2f}{short}."
        )
    if summary.checkpointed_at is None:
        yield "No checkpoint was saved yet."
    else:
        yield f"The oldest checkpoint is of {summary.checkpointed_at:%Y-%m-%d %H:%M} UTC."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
