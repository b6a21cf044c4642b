"""``GET /debug/vpa/{namespace}/{name}`` on the ops address: how a recommendation comes about."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import fastapi
import msgspec
from fastapi.responses import PlainTextResponse

from common.api.base import Wire
from common.runtime.text_or_json import described, wants_text
from recommender.publish.explanation import (
    ExplainedContainer,
    RecommendationExplanation,
    Unexplained,
)
from recommender.publish.status_decision import WriteDecision

PATH = "/debug/vpa/{namespace}/{name}"

Explainer = Callable[[str, str], RecommendationExplanation | Unexplained]
"""Explains the VPA of a namespace and a name."""

Row = tuple[str, str, str, str, str, str]

_HEAD: Row = ("RESOURCE", "AMOUNT", "STEP", "BY", "VALUE", "MEANING")
_STATUS = {
    WriteDecision.EQUAL: "the status says so",
    WriteDecision.WRITTEN: "the next cycle writes it into the status",
    WriteDecision.WAITS: "the status nearly says so; the small difference waits until {due}",
}


class NoExplanation(Wire, frozen=True, kw_only=True):
    """Why there is nothing to explain."""

    error: str


def router(explain: Explainer) -> fastapi.APIRouter:
    """The endpoint; ``explain`` makes up the recommendation as a cycle does, of that VPA alone."""
    made = fastapi.APIRouter()

    @made.get(PATH, response_model=None, responses=_responses())
    async def vpa(request: fastapi.Request, namespace: str, name: str) -> fastapi.Response:
        """How the recommendation of a VPA comes about, from samples to its status.

        The numbers are made up anew, by the code that a cycle calls. With ``Accept: text/plain``
        the answer is a table.
        """
        text = wants_text(request.headers.get("accept", ""))
        found = explain(namespace, name)
        if isinstance(found, Unexplained):
            return _refused(found, text=text)
        if text:
            return PlainTextResponse("".join(f"{line}\n" for line in lines(found)))
        body = msgspec.json.encode(found) + b"\n"
        return fastapi.Response(body, media_type="application/json")

    return made


def _refused(found: Unexplained, *, text: bool) -> fastapi.Response:
    if text:
        return PlainTextResponse(f"{found.error}\n", status_code=found.status)
    body = msgspec.json.encode(NoExplanation(error=found.error)) + b"\n"
    return fastapi.Response(body, status_code=found.status, media_type="application/json")


def _responses() -> dict[int | str, dict[str, Any]]:
    answer = partial(described, path=PATH, method="get")
    table = "\n".join(_aligned([_HEAD, _EXAMPLE])) + "\n"
    return {
        200: answer(RecommendationExplanation, status=200, text=table)
        | {"description": "Every step of every number, and what they start from."},
        404: answer(NoExplanation, status=404, text="there is no VPA shop/web\n")
        | {"description": "There is no such VPA, or another recommender answers for it."},
        422: answer(NoExplanation, status=422, text="its policy can't be read: …\n")
        | {"description": "The VPA says something that can't be used; says what."},
        503: answer(NoExplanation, status=503, text="the cluster has not been listed yet\n")
        | {"description": "This process recommends nothing now; says why."},
    }


# The text


def lines(told: RecommendationExplanation) -> Iterator[str]:
    """The lines of a page: what is known of the VPA, then a table for each container."""
    due = "-" if told.due is None else _seconds(told.due)
    yield f"VPA {told.namespace}/{told.name}, generation {told.generation}, at {_seconds(told.at)}"
    pods = "nothing" if told.selector is None else told.selector or "every pod"
    yield f"{told.target or 'no target'}: selects {pods}, pods: {told.pods}"
    if told.unsupported is not None:
        yield f"ConfigUnsupported: {told.unsupported}"
    yield f"{told.status}: {_STATUS[told.status].format(due=due)}"
    if told.held_up is not None:
        yield f"but nothing is written now: {told.held_up}"
    for container in told.containers:
        yield ""
        yield from _container(container)
    for left in told.left_out:
        yield ""
        yield f"Container {left.name} is left out: {left.why}."


def _container(told: ExplainedContainer) -> Iterator[str]:
    yield f"Container {told.name}: {_samples(told)}"
    for resource, weight in told.weight.items():
        confidence = told.confidence[resource]
        yield f"  {resource}: weight {weight:.6g}, confidence {confidence:.6g}"
    if told.sharing > 1:
        yield f"  {told.sharing} containers share the pod's minimum"
    yield ""
    yield from _aligned([_HEAD, *_rows(told)])


def _samples(told: ExplainedContainer) -> str:
    if told.oldest_sample is None or told.newest_sample is None:
        return "no CPU samples"
    oldest, newest = _seconds(told.oldest_sample), _seconds(told.newest_sample)
    return f"{told.samples} CPU samples, from {oldest} to {newest}"


def _rows(told: ExplainedContainer) -> Iterator[Row]:
    for number in told.numbers:
        for stage in number.steps:
            by, value = stage.by or "-", stage.after or "-"
            yield number.resource, number.amount, stage.step, by, value, stage.meaning


_EXAMPLE: Row = ("cpu", "target", "margin", "0.15", "126m", "The margin is added.")


def _aligned(rows: Sequence[Row]) -> Iterator[str]:
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join((*cells, row[-1]))


def _seconds(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
