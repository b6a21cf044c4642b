"""``GET /debug/plan`` on the ops address: the decisions of the next pass, with reasons.

The decisions are those of ``updater.preview``. The response is streamed in slices of pods, and the
numbers of a pod are computed when it is sent, so they are never all in memory.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

import fastapi
import msgspec
from fastapi.responses import PlainTextResponse, StreamingResponse

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import Wire
from common.kube.lease import AdmissionStatus
from common.read_model.updater import ContainerNumbers, PlannedVpaHead, PodLevelNumbers
from common.runtime.text_or_json import described, wants_text
from common.target.controlling import mode_of
from updater.decision import Action, Decision, Reason
from updater.decision_log import whole_seconds
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.plan_rows import (
    container_numbers,
    pod_level_numbers,
    why_no_decisions,
)
from updater.preview import NotNow, PassPreview
from updater.snapshot.cluster_snapshot import AutoscaledPods, key_of
from updater.snapshot.live_pod import LivePod
from updater.snapshot.selection import Scope

PATH = "/debug/plan"

Planner = Callable[[Scope], Awaitable[PassPreview | NotNow]]

_SLICE = 500  # pods that are sent before other tasks run
_HEAD = ("NAMESPACE", "VPA", "POD", "DECISION", "REASON", "UNTIL", "MEANING")


class PodAnswer(Wire, frozen=True, kw_only=True):
    """The decision on a pod, and the numbers behind it.

    ``detail`` has the numbers of the reason, or is null. ``until`` is the time before which the
    decision doesn't change by itself; null: unknown, or independent of time. ``resource_diff`` is
    relative: 0.5 is half of the request.
    """

    name: str
    decision: Action
    reason: Reason
    meaning: str
    detail: str | None
    until: datetime | None
    resource_diff: float | None
    outside_range: bool | None
    containers: tuple[ContainerNumbers, ...]
    pod_level: PodLevelNumbers | None = None


class VpaAnswer(PlannedVpaHead, frozen=True, kw_only=True):
    """A VPA and the decisions on its pods; ``why`` is the reason that there are none."""

    pods: tuple[PodAnswer, ...]


class Basis(Wire, frozen=True, kw_only=True):
    """The basis of the plan; ``leading`` and ``caches_fresh`` are always true."""

    at: datetime
    leading: bool
    caches_fresh: bool
    admission: AdmissionStatus


class PlanAnswer(Basis, frozen=True, kw_only=True):
    """The decisions of the next pass, if every call succeeds and no rate limit ends it."""

    vpas: tuple[VpaAnswer, ...]


class NoPlan(Wire, frozen=True, kw_only=True):
    """The reason that there is no plan."""

    error: str


def router(planner: Planner) -> fastapi.APIRouter:
    """Return the endpoint for the plans of ``planner``."""
    made = fastapi.APIRouter()

    @made.get(PATH, response_model=None, responses=_responses())
    async def plan(
        request: fastapi.Request, namespace: str = "", vpa: str = ""
    ) -> fastapi.Response:
        """Return the decision of the updater's next pass on each pod, and its reason.

        The plan assumes that every call succeeds, and ignores rate limits. ``namespace`` and
        ``vpa`` restrict it. With ``Accept: text/plain`` the answer is a table.
        """
        text = wants_text(request.headers.get("accept", ""))
        found = await planner(Scope(namespace, vpa))
        if isinstance(found, NotNow):
            return _refused(found, text=text)
        if text:
            return StreamingResponse(as_text(found), media_type="text/plain")
        return StreamingResponse(as_json(found), media_type="application/json")

    return made


def _refused(found: NotNow, *, text: bool) -> fastapi.Response:
    status = 409 if found in _BUSY else 503
    if text:
        return PlainTextResponse(f"no plan: {found}\n", status_code=status)
    body = msgspec.json.encode(NoPlan(error=found)) + b"\n"
    return fastapi.Response(body, status_code=status, media_type="application/json")


_BUSY = frozenset({NotNow.PLANNING, NotNow.UNDER_WAY})


def _responses() -> dict[int | str, dict[str, Any]]:
    answer = partial(described, path=PATH, method="get")
    table = "\n".join(_aligned([_HEAD, _EXAMPLE], _widths([_HEAD, _EXAMPLE]))) + "\n"
    busy, away = f"no plan: {NotNow.PLANNING}\n", f"no plan: {NotNow.NOT_LEADING}\n"
    return {
        200: answer(PlanAnswer, status=200, text=table)
        | {"description": "The decision on each pod, with its reason."},
        409: answer(NoPlan, status=409, text=busy)
        | {"description": "A plan or a pass is in progress. Retry later."},
        503: answer(NoPlan, status=503, text=away)
        | {"description": "This process makes no decisions at present, for the given reason."},
    }


# The answers


async def as_json(plan: PassPreview) -> AsyncIterator[bytes]:
    """Yield a ``PlanAnswer`` in slices of pods."""
    parts = _encoded(plan)
    while part := b"".join(islice(parts, _SLICE)):
        yield part
        await asyncio.sleep(0)


def _encoded(plan: PassPreview) -> Iterator[bytes]:
    """Yield a ``PlanAnswer`` in parts of at most one pod."""
    basis = Basis(at=plan.taken_at, leading=True, caches_fresh=True, admission=plan.admission)
    yield _opened(basis, "vpas")
    before_vpa = b"\n"
    for vpa, scaled, pods, why in _by_vpa(plan):
        namespace, name = key_of(vpa)
        head = PlannedVpaHead(namespace=namespace, name=name, mode=mode_of(vpa), why=why)
        yield before_vpa + _opened(head, "pods")
        ranges = () if scaled is None else scaled.limit_ranges
        fit = RecommendationFit(vpa, ranges, pod_level=plan.pod_level)
        before_pod = b""
        for pod, decision in pods:
            yield before_pod + msgspec.json.encode(_pod(pod, decision, fit))
            before_pod = b","
        yield b"]}"
        before_vpa = b",\n"
    yield b"\n]}\n"


def _opened(head: Wire, name: str) -> bytes:
    """Return the start of an object, up to the items of a further field."""
    return msgspec.json.encode(head).removesuffix(b"}") + f',"{name}":['.encode()


async def as_text(plan: PassPreview) -> AsyncIterator[str]:
    """Yield the basis of the plan, and a table with a line for each pod."""
    rows, widths = [_HEAD], _widths([_HEAD])
    for row in _rows(plan):
        rows.append(row)
        if len(rows) % _SLICE == 0:
            widths = _widths(rows[-_SLICE:], widths)
            await asyncio.sleep(0)
    widths = _widths(rows[-_SLICE:], widths)
    at = whole_seconds(plan.taken_at)
    yield f"At {at}: {_counts(plan)}; leading, caches fresh, admission {plan.admission}\n\n"
    if rows == [_HEAD]:
        yield "There is no such VPA.\n"
        return
    for start in range(0, len(rows), _SLICE):
        yield "".join(f"{line}\n" for line in _aligned(rows[start : start + _SLICE], widths))
        await asyncio.sleep(0)


def _counts(plan: PassPreview) -> str:
    counts = Counter(decision.action for decision in plan.decisions.values())
    return (
        ", ".join(f"{counts[action]} {action}" for action in Action if counts[action]) or "no pods"
    )


Row = tuple[str, str, str, str, str, str, str]

_EXAMPLE: Row = (
    *("shop", "web", "web-5d4f8c7b9-x2x8q", Action.LEAVE.value, Reason.TOO_YOUNG.value),
    *("2026-03-01T12:00:00Z", Reason.TOO_YOUNG.meaning),
)


def _rows(plan: PassPreview) -> Iterator[Row]:
    for vpa, _, pods, why in _by_vpa(plan):
        namespace, name = key_of(vpa)
        if why is not None:
            yield namespace, name, "-", "-", "-", "-", why
        for pod, decision in pods:
            until = "-" if decision.until is None else whole_seconds(decision.until)
            yield (
                *(namespace, name, pod.metadata.name),
                *(decision.action.value, decision.reason.value, until),
                decision.detail or decision.reason.meaning,
            )


def _widths(rows: Sequence[Row], before: Sequence[int] = ()) -> list[int]:
    """Return the widths of all columns except the last one, at least those of ``before``."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return [max(pair) for pair in zip(widths, before or widths, strict=True)]


def _aligned(rows: Sequence[Row], widths: Sequence[int]) -> Iterator[str]:
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join((*cells, row[-1]))


# The rows of a plan


Decided = Sequence[tuple[LivePod, Decision]]


def _by_vpa(
    plan: PassPreview,
) -> Iterator[tuple[VerticalPodAutoscaler, AutoscaledPods | None, Decided, str | None]]:
    """Yield each VPA with its pods, its decisions, and the reason if there are none."""
    scaled = {key_of(each.vpa): each for each in plan.snapshot.autoscaled}
    for vpa in sorted(plan.vpas, key=key_of):
        found = scaled.get(key_of(vpa))
        decided = _decided(found, plan)
        skipped = plan.skipped.get(key_of(vpa))
        yield vpa, found, decided, skipped or (None if decided else why_no_decisions(vpa, found))


def _decided(scaled: AutoscaledPods | None, plan: PassPreview) -> Decided:
    if scaled is None:
        return ()
    pods = sorted(scaled.pods, key=lambda pod: pod.metadata.name)
    known = ((pod, plan.decisions.get(pod.metadata.uid)) for pod in pods)
    return [(pod, decision) for pod, decision in known if decision is not None]


def _pod(pod: LivePod, decision: Decision, fit: RecommendationFit) -> PodAnswer:
    measured = fit.measured(pod)
    known = None if isinstance(measured, Decision) else measured
    return PodAnswer(
        name=pod.metadata.name,
        decision=decision.action,
        reason=decision.reason,
        meaning=decision.reason.meaning,
        detail=decision.detail or None,
        until=decision.until,
        resource_diff=None if known is None else known.drift.resource_diff,
        outside_range=None if known is None else known.drift.outside_range,
        containers=() if known is None else container_numbers(pod, known),
        pod_level=None if known is None else pod_level_numbers(pod, known.processed, fit),
    )
