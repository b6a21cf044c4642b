"""The explanation of a review: the verdict about the pod, and each step of its numbers.

Nothing is decided here. The numbers and their steps come from the functions that compute the patch.
"""

import contextlib
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from admission.metrics import ReviewOutcome
from admission.pod_reviews import MatchReason, PodVerdict, TargetingVpa, VpaMatch
from admission.review import AdmissionRequest
from common.annotations import startup_boost_key
from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.base import QuantityJson, Wire
from common.api.core import NO_RESOURCES, Pod
from common.errors import DecodeError
from common.patches import Operation, pointer
from common.recommendation.actual_resources import actual_resources
from common.recommendation.admission_trace import WHOLE_POD, admission_trace
from common.recommendation.admitted_resources import admitted_resources
from common.recommendation.decision_trace import Amount, DecisionTrace
from common.recommendation.pod_level import POD_LEVEL_PATH
from common.recommendation.policy import container_policy
from common.recommendation.scaled_containers import scaled_containers, scaled_specs
from common.target.controlling import can_control_pods, has_startup_boost, mode_of
from common.target.owners import Controller, controller_of

_BOUNDS = ("min", "max", "default")  # of a LimitRange
_UNBOOSTED = (
    "; nothing is boosted: the feature gate CPUStartupBoost is off, the containers have mode Off, "
    "or the boost is of no known type"
)
_NO_CONTAINER = "the pod has no such container"
_NO_ADVICE = "nothing is recommended for it, so it stays as it is"
_PLACES = {Amount.REQUEST: "requests", Amount.LIMIT: "limits"}


class CandidateOutcome(enum.StrEnum):
    """The result of matching a VPA that targets the pod's topmost owner."""

    CHOSEN = "chosen"
    MODE_OFF = "mode_off"
    LOOKUP_FAILED = "lookup_failed"
    NOT_SELECTED = "labels_not_selected"
    OLDER_WINS = "older_vpa_wins"


class CandidateVpa(Wire, frozen=True, kw_only=True):
    """A VPA that targets the pod's topmost owner."""

    name: str
    mode: str
    created: str | None
    fate: CandidateOutcome
    why: str


class NumberStep(Wire, frozen=True, kw_only=True):
    """A number after one step; null if there is none."""

    step: str
    value: str | None


class NumberExplanation(Wire, frozen=True, kw_only=True):
    """The steps of one number; ``path`` is null if the patch doesn't set it."""

    amount: str
    resource: str
    steps: tuple[NumberStep, ...]
    path: str | None
    patched: str | None


class ContainerExplanation(Wire, frozen=True, kw_only=True):
    """A container's present resources, the policy that applies, and the steps of its numbers."""

    name: str
    requests: Mapping[str, str]
    limits: Mapping[str, str]
    policy: Any
    note: str
    numbers: tuple[NumberExplanation, ...]


class PodLevelExplanation(Wire, frozen=True, kw_only=True):
    """The pod's ``spec.resources``, and the steps of its numbers if they change."""

    requests: Mapping[str, str]
    limits: Mapping[str, str]
    numbers: tuple[NumberExplanation, ...]


class PodExplanation(Wire, frozen=True, kw_only=True):
    """The explanation of a pod's review; ``pod`` is the pod after the patch."""

    outcome: str
    why: str
    namespace: str
    name: str
    controller: str | None
    topmost_owner: str | None
    vpa: str | None
    candidates: tuple[CandidateVpa, ...]
    limit_ranges: Any
    containers: tuple[ContainerExplanation, ...]
    pod_level: PodLevelExplanation | None
    patch: tuple[Operation, ...]
    pod: Any


def explain(verdict: PodVerdict, request: AdmissionRequest) -> PodExplanation:
    """Explain the verdict about the pod of a request."""
    pod, match, trace = verdict.pod, verdict.match, _trace(verdict)
    namespace = request.namespace
    controller = None if pod is None else controller_of(pod.metadata)
    topmost = None if match is None else match.topmost
    return PodExplanation(
        outcome=verdict.outcome,
        why=_why(verdict, _named(topmost or controller), namespace),
        namespace=namespace,
        name=request.name,
        controller=_named(controller),
        topmost_owner=_named(topmost),
        vpa=verdict.vpa_name or None,
        candidates=() if match is None or pod is None else _candidates(match, pod),
        limit_ranges=msgspec.to_builtins(verdict.limit_ranges),
        containers=() if pod is None else _containers(pod, verdict, trace),
        pod_level=None if pod is None else _pod_level(pod, verdict, trace),
        patch=verdict.patches,
        pod=request.patched(verdict.patches),
    )


def _trace(verdict: PodVerdict) -> DecisionTrace:
    """Return the steps of the verdict's numbers; none if the numbers can't be computed."""
    pod, policy = verdict.pod, verdict.policy
    vpa = None if verdict.match is None else verdict.match.vpa
    if pod is None or vpa is None or policy is None:
        return DecisionTrace()
    for with_bounds in (True, False):  # without: bounds can be unparsable, the patch ignores them
        with contextlib.suppress(DecodeError):  # the verdict contains the error
            admitted = admitted_resources(
                pod,
                vpa,
                verdict.limit_ranges,
                pod_level=policy.pod_level,
                most_boost=policy.most_boost if policy.features.cpu_startup_boost else None,
                with_bounds=with_bounds,
            )
            return admission_trace(pod, vpa, admitted)
    return DecisionTrace()


def _why(verdict: PodVerdict, owner: str | None, namespace: str) -> str:
    match verdict.outcome:
        case ReviewOutcome.NOT_SYNCED:
            return "the cluster has not been listed yet; until then pods pass unchanged"
        case ReviewOutcome.TIMED_OUT:
            return f"the owner of {owner} was not found in time; the pod passes unchanged"
        case ReviewOutcome.LOOKUP_FAILED:
            return f"the owner of {owner} can't be found: {verdict.error}; the pod passes unchanged"
        case ReviewOutcome.ERROR:
            source = f"VPA {verdict.vpa_name} or of the pod"
            return f"a number of {source} can't be used: {verdict.error}; the pod passes unchanged"
        case ReviewOutcome.PATCHED if verdict.match is not None and verdict.match.vpa is not None:
            idle = _UNBOOSTED if _is_unboosted(verdict, verdict.match.vpa) else ""
            unfit = "" if verdict.unfit is None else f"; nothing is applied: {verdict.error}"
            return _why_patched(verdict.match.vpa, owner) + idle + unfit
    reason = MatchReason.MATCHED if verdict.match is None else verdict.match.reason
    sentences = {
        MatchReason.NO_CONTROLLER: "the pod has no controller (an owner reference with controller: "
        "true), and VPAs target controllers",
        MatchReason.NO_VPA_IN_NAMESPACE: f"no VPA of the namespace {namespace} has a targetRef",
        MatchReason.NO_SCALABLE_OWNER: f"{owner} is neither of a well-known kind nor scalable",
        MatchReason.NOT_TARGETED: f"no VPA targets {owner}, the pod's topmost owner",
        MatchReason.NONE_APPLIES: f"no VPA that targets {owner} applies to the pod",
    }
    return sentences.get(reason, verdict.error or verdict.problem)


def _why_patched(vpa: VerticalPodAutoscaler, owner: str | None) -> str:
    name = vpa.metadata.name
    if mode_of(vpa) == UpdateMode.OFF:
        return f"VPA {name} targets {owner}; it has mode Off, so only its start-up boost counts"
    if vpa.status.recommendation is None:
        return f"VPA {name} targets {owner}, but has no recommendation yet"
    return f"VPA {name} targets {owner}"


def _is_unboosted(verdict: PodVerdict, vpa: VerticalPodAutoscaler) -> bool:
    """Return whether the VPA has a start-up boost that no container gets."""
    place = pointer("metadata", "annotations", startup_boost_key(""))
    return has_startup_boost(vpa) and not any(
        each.path.startswith(place) for each in verdict.patches
    )


def _candidates(match: VpaMatch, pod: Pod) -> tuple[CandidateVpa, ...]:
    found = [_of_candidate(each, match, pod) for each in match.candidates]
    return tuple(
        sorted(
            found,
            key=lambda each: (
                each.fate is not CandidateOutcome.CHOSEN,
                each.created or "",
                each.name,
            ),
        )
    )


def _of_candidate(candidate: TargetingVpa, match: VpaMatch, pod: Pod) -> CandidateVpa:
    vpa = candidate.vpa
    fate, why = _outcome_of(candidate, match, pod)
    created = vpa.metadata.creation_timestamp
    return CandidateVpa(
        name=vpa.metadata.name,
        mode=mode_of(vpa),
        created=None if created is None else created.isoformat().replace("+00:00", "Z"),
        fate=fate,
        why=why,
    )


def _outcome_of(candidate: TargetingVpa, match: VpaMatch, pod: Pod) -> tuple[CandidateOutcome, str]:
    if candidate.vpa is match.vpa:
        others = len(match.candidates) > 1
        return CandidateOutcome.CHOSEN, "the oldest that applies" if others else "the only one"
    if not can_control_pods(candidate.vpa):
        return CandidateOutcome.MODE_OFF, "its mode is Off: it only gives advice"
    if candidate.selector is None:
        return (
            CandidateOutcome.LOOKUP_FAILED,
            f"its target's selector can't be found: {candidate.problem}",
        )
    if not candidate.selector.matches(pod.metadata.labels):
        wanted = "nothing" if candidate.selector.nothing else str(candidate.selector)
        return (
            CandidateOutcome.NOT_SELECTED,
            f"its target selects {wanted}, and the pod's labels don't match",
        )
    chosen = "another" if match.vpa is None else match.vpa.metadata.name
    return CandidateOutcome.OLDER_WINS, f"{chosen} is older, or as old and sorts first"


def _containers(
    pod: Pod, verdict: PodVerdict, trace: DecisionTrace
) -> tuple[ContainerExplanation, ...]:
    vpa = None if verdict.match is None else verdict.match.vpa
    if vpa is None:
        return ()
    values = {each.path: each.value for each in verdict.patches}
    paths = {each.spec.name: each.resources_path for each in scaled_containers(pod)}
    names = [container.name for container in scaled_specs(pod)]
    names += (name for name in trace.containers if name not in paths and name != WHOLE_POD)
    found: list[ContainerExplanation] = []
    for name in names:
        at = paths.get(name)
        numbers = tuple(_numbers(name, at, trace, values))
        asked = any(number.amount == Amount.REQUEST for number in numbers)
        note = _NO_CONTAINER if at is None else "" if asked else _NO_ADVICE
        found.append(_container(name, numbers, note, pod=pod, vpa=vpa))
    return tuple(found)


def _pod_level(pod: Pod, verdict: PodVerdict, trace: DecisionTrace) -> PodLevelExplanation | None:
    present = pod.spec.resources
    if present is None or verdict.match is None or verdict.match.vpa is None:
        return None
    values = {each.path: each.value for each in verdict.patches}
    return PodLevelExplanation(
        requests=_texts(present.requests),
        limits=_texts(present.limits),
        numbers=tuple(_numbers(WHOLE_POD, POD_LEVEL_PATH, trace, values)),
    )


def _container(
    name: str,
    numbers: tuple[NumberExplanation, ...],
    note: str,
    *,
    pod: Pod,
    vpa: VerticalPodAutoscaler,
) -> ContainerExplanation:
    present = actual_resources(pod, name) or NO_RESOURCES
    return ContainerExplanation(
        name=name,
        requests=_texts(present.requests),
        limits=_texts(present.limits),
        policy=msgspec.to_builtins(container_policy(vpa, name)),
        note=note,
        numbers=numbers,
    )


def _numbers(
    name: str, at: str | None, trace: DecisionTrace, values: Mapping[str, Any]
) -> Iterable[NumberExplanation]:
    by_number: dict[tuple[Amount, str], list[NumberStep]] = {}
    for step in trace.of(name):
        value = None if step.after is None else str(step.after)
        stage = NumberStep(step=step.reason, value=value)
        by_number.setdefault((step.amount, step.resource), []).append(stage)
    order = list(Amount)
    for amount, resource in sorted(by_number, key=lambda way: order.index(way[0])):
        path = _path(at, amount, resource)
        written = path is not None and path in values
        yield NumberExplanation(
            amount=amount,
            resource=resource,
            steps=tuple(by_number[amount, resource]),
            path=path if written else None,
            patched=values[path] if path is not None and written else None,
        )


def _path(at: str | None, amount: Amount, resource: str) -> str | None:
    if at is None or amount not in _PLACES:
        return None
    return at + pointer(_PLACES[amount], resource)


def _texts(quantities: Mapping[str, QuantityJson] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (quantities or {}).items()}


def _named(controller: Controller | None) -> str | None:
    return None if controller is None else f"{controller.kind} {controller.name}"


def as_text(explanation: PodExplanation) -> str:
    """Return the explanation as readable text, without the pod."""
    return "\n".join([*_head(explanation), *_body(explanation)]) + "\n"


def _head(of: PodExplanation) -> Iterable[str]:
    yield f"{of.namespace}/{of.name}: {of.outcome}"
    yield f"  {of.why}"
    if of.controller is not None:
        top = of.topmost_owner
        yield f"  owner: {of.controller}" + ("" if top in (None, of.controller) else f" of {top}")
    for each in of.candidates:
        yield f"  VPA {each.name} ({each.mode}): {each.fate}, {each.why}"
    for spec in of.limit_ranges:
        for item in spec.get("limits") or ():
            bounds = [_listed(what, item[what]) for what in _BOUNDS if item.get(what)]
            yield f"  LimitRange of type {item.get('type', '')}: {'; '.join(bounds)}"


def _body(of: PodExplanation) -> Iterable[str]:
    for container in of.containers:
        yield ""
        yield f"container {container.name}"
        if container.note != _NO_CONTAINER:
            has = _listed("requests", container.requests), _listed("limits", container.limits)
            yield f"  has {'; '.join(has)}"
        if container.policy is not None:
            yield f"  policy {msgspec.json.encode(container.policy).decode()}"
        if container.note:
            yield f"  {container.note}"
        for number in container.numbers:
            yield from _number_lines(number)
    if of.pod_level is not None:
        yield ""
        yield "the pod as a whole"
        whole = of.pod_level
        yield f"  has {_listed('requests', whole.requests)}; {_listed('limits', whole.limits)}"
        for number in whole.numbers:
            yield from _number_lines(number)
    yield ""
    yield "patch" if of.patch else "no patch"
    for operation in of.patch:
        yield f"  {operation.op} {operation.path} {msgspec.json.encode(operation.value).decode()}"


def _listed(what: str, quantities: Mapping[str, str]) -> str:
    listed = ", ".join(f"{name} {value}" for name, value in quantities.items())
    return f"{what} {listed}" if listed else f"no {what}"


def _number_lines(number: NumberExplanation) -> Sequence[str]:
    width = max(len(each.value or "-") for each in number.steps)
    lines = [f"  {number.amount} {number.resource}"]
    lines += [f"    {each.value or '-':>{width}}  {each.step}" for each in number.steps]
    if number.path is not None:
        lines.append(f"    {number.patched:>{width}}  patched")
    return lines
