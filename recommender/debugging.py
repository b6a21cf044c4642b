"""The endpoint ``GET /debug/vpa/{namespace}/{name}``, which explains a recommendation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import fastapi
import msgspec
from fastapi.responses import PlainTextResponse

from common.api.base import Wire
from common.read_model.explanation import ExplainedContainer, RecommendationExplanation
from common.runtime.text_or_json import described, wants_text
from recommender.publish.explanation import Unexplained
from recommender.publish.status_decision import WriteDecision

PATH = "/debug/vpa/{namespace}/{name}"

Explainer = Callable[[str, str], RecommendationExplanation | Unexplained]
"""A function that explains the VPA with a namespace and a name."""

Row = tuple[str, str, str, str, str, str]

_HEAD: Row = ("RESOURCE", "AMOUNT", "STEP", "BY", "VALUE", "MEANING")
_STATUS: Mapping[str, str] = {
    WriteDecision.EQUAL: "the status says so",
    WriteDecision.WRITTEN: "the next cycle writes it into the status",
    WriteDecision.WAITS: "the status nearly says so; the small difference waits until {due}",
}


class NoExplanation(Wire, frozen=True, kw_only=True):
    """The reason why there is no explanation."""

    error: str


def router(explain: Explainer) -> fastapi.APIRouter:
    """Return the endpoint; ``explain`` computes the recommendation as a cycle does."""
    made = fastapi.APIRouter()

    @made.get(PATH, response_model=None, responses=_responses())
    async def vpa(request: fastapi.Request, namespace: str, name: str) -> fastapi.Response:
        """Explain the recommendation of a VPA, from its samples to its status.

        The numbers are computed for this request, by the functions that a cycle uses. With
        ``Accept: text/plain`` the response is a table.
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
        | {"description": "The history of each container, and each step of each number."},
        404: answer(NoExplanation, status=404, text="there is no VPA shop/web\n")
        | {"description": "The VPA doesn't exist, or another recommender handles it."},
        422: answer(NoExplanation, status=422, text="VPA shop/web: its policy can't be read: …\n")
        | {"description": "A field of the VPA is invalid, as described."},
        503: answer(
            NoExplanation, status=503, text="no cycle has ended yet, so nothing is recommended\n"
        )
        | {
            "description": "This process makes no recommendations at present, for the given reason."
        },
    }


# The text


def lines(explained: RecommendationExplanation) -> Iterator[str]:
    """Yield the lines of the page: a summary of the VPA, then a table for each container."""
    due = "-" if explained.due is None else _seconds(explained.due)
    name, at = f"{explained.namespace}/{explained.name}", _seconds(explained.at)
    yield f"VPA {name}, generation {explained.generation}, at {at}"
    pods = "nothing" if explained.selector is None else explained.selector or "every pod"
    yield f"{explained.target or 'no target'}: selects {pods}, pods: {explained.pods}"
    if explained.unsupported is not None:
        yield f"ConfigUnsupported: {explained.unsupported}"
    yield f"{explained.status}: {_STATUS[explained.status].format(due=due)}"
    if explained.held_up is not None:
        yield f"but nothing is written now: {explained.held_up}"
    for container in explained.containers:
        yield ""
        yield from _container(container)
    for left in explained.left_out:
        yield ""
        yield f"Container {left.name} is left out: {left.why}."


def _container(explained: ExplainedContainer) -> Iterator[str]:
    yield f"Container {explained.name}: {_samples(explained)}"
    for resource, weight in explained.weight.items():
        confidence = explained.confidence[resource]
        yield f"  {resource}: weight {weight:.6g}, confidence {confidence:.6g}"
    if explained.sharing > 1:
        yield f"  {explained.sharing} containers share the pod's minimum"
    yield ""
    yield from _aligned([_HEAD, *_rows(explained)])


def _samples(explained: ExplainedContainer) -> str:
    if explained.oldest_sample is None or explained.newest_sample is None:
        return "no CPU samples"
    oldest, newest = _seconds(explained.oldest_sample), _seconds(explained.newest_sample)
    return f"{explained.samples} CPU samples, from {oldest} to {newest}"


def _rows(explained: ExplainedContainer) -> Iterator[Row]:
    for number in explained.numbers:
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
