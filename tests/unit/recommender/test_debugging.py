"""GET /debug/vpa: the explanation as JSON and as a table, and its errors."""

import json
from datetime import UTC, datetime

import fastapi
import pytest

from common.read_model.explanation import (
    ExcludedContainer,
    ExplainedContainer,
    ExplainedNumber,
    ExplainedStep,
    RecommendationExplanation,
)
from common.recommendation.decision_trace import Amount
from ops_caller import Answer, get
from recommender import debugging
from recommender.estimate.step_reasons import StepReason
from recommender.publish.explanation import ExclusionReason, Unexplained
from recommender.publish.status_decision import WriteDecision

AT = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
STEPS = (
    (StepReason.PERCENTILE, "0.9", None, "43m"),
    (StepReason.MARGIN, "0.15", "43m", "49m"),
    (StepReason.MAX_ALLOWED, "45m", "49m", "45m"),
)
APP = ExplainedContainer(
    name="app",
    samples=15,
    oldest_sample=AT,
    newest_sample=AT,
    weight={"cpu": 1.25},
    confidence={"cpu": 0.75},
    sharing=2,
    numbers=(
        ExplainedNumber(
            resource="cpu",
            amount=Amount.TARGET,
            published="45m",
            steps=tuple(
                ExplainedStep(step=step, by=by, before=before, after=after, meaning=step.meaning)
                for step, by, before, after in STEPS
            ),
        ),
    ),
)
WEB = RecommendationExplanation(
    namespace="shop",
    name="web",
    generation=3,
    at=AT,
    target="apps/v1 Deployment web",
    selector="app=web",
    pods=2,
    unsupported=None,
    status=WriteDecision.WAITS,
    due=AT,
    held_up=None,
    containers=(APP,),
    left_out=(
        ExcludedContainer(
            name="old", reason=ExclusionReason.EXPIRED, why=ExclusionReason.EXPIRED.meaning
        ),
    ),
)


async def ask(found: RecommendationExplanation | Unexplained, *, accept: str = "*/*") -> Answer:
    def explain(namespace: str, name: str) -> RecommendationExplanation | Unexplained:
        assert (namespace, name) == ("shop", "web")
        return found

    app = fastapi.FastAPI()
    app.include_router(debugging.router(explain))
    return await get(app, "/debug/vpa/shop/web", accept=accept)


async def test_each_step_of_each_number_is_shown() -> None:
    answer = await ask(WEB)
    assert (answer.status, answer.media) == (200, "application/json")
    explained = json.loads(answer.body)
    (app,) = explained.pop("containers")
    assert explained == {
        "namespace": "shop",
        "name": "web",
        "generation": 3,
        "at": "2026-03-01T12:00:00.000005Z",
        "target": "apps/v1 Deployment web",
        "selector": "app=web",
        "pods": 2,
        "unsupported": None,
        "status": "waits",
        "due": "2026-03-01T12:00:00.000005Z",
        "heldUp": None,
        "leftOut": [{"name": "old", "reason": "expired", "why": ExclusionReason.EXPIRED.meaning}],
    }
    (number,) = app.pop("numbers")
    assert app["weight"] == {"cpu": 1.25}
    assert (app["samples"], app["oldestSample"], app["sharing"]) == (15, explained["at"], 2)
    assert (number["resource"], number["amount"], number["published"]) == ("cpu", "target", "45m")
    assert [(one["step"], one["by"], one["before"], one["after"]) for one in number["steps"]] == [
        tuple(step) for step in STEPS
    ]


async def test_the_explanation_as_text() -> None:
    answer = await ask(WEB, accept="text/plain")
    assert (answer.status, answer.media) == (200, "text/plain; charset=utf-8")
    assert answer.body.decode() == (
        "VPA shop/web, generation 3, at 2026-03-01T12:00:00Z\n"
        "apps/v1 Deployment web: selects app=web, pods: 2\n"
        "waits: the status nearly says so; the small difference waits until 2026-03-01T12:00:00Z\n"
        "\n"
        "Container app: 15 CPU samples, from 2026-03-01T12:00:00Z to 2026-03-01T12:00:00Z\n"
        "  cpu: weight 1.25, confidence 0.75\n"
        "  2 containers share the pod's minimum\n"
        "\n"
        "RESOURCE  AMOUNT  STEP         BY    VALUE  MEANING\n"
        f"cpu       target  percentile   0.9   43m    {StepReason.PERCENTILE.meaning}\n"
        f"cpu       target  margin       0.15  49m    {StepReason.MARGIN.meaning}\n"
        f"cpu       target  max_allowed  45m   45m    {StepReason.MAX_ALLOWED.meaning}\n"
        "\n"
        f"Container old is left out: {ExclusionReason.EXPIRED.meaning}.\n"
    )


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(Unexplained(404, "there is no VPA shop/web"), id="no VPA of this name"),
        pytest.param(Unexplained(422, "its policy can't be read"), id="an unusable VPA"),
        pytest.param(Unexplained(503, "ask another"), id="not the leader"),
    ],
)
async def test_errors_of_the_endpoint(found: Unexplained) -> None:
    answer = await ask(found)
    assert (answer.status, answer.media) == (found.status, "application/json")
    assert json.loads(answer.body) == {"error": found.error}
    text = await ask(found, accept="text/plain")
    assert (text.status, text.body.decode()) == (found.status, f"{found.error}\n")


def test_the_openapi_document_describes_the_answers() -> None:
    app = fastapi.FastAPI()
    app.include_router(debugging.router(lambda *_: Unexplained(503, "")))
    page = app.openapi()
    described = page["paths"][debugging.PATH]["get"]
    assert {each["name"] for each in described["parameters"]} == {"namespace", "name"}
    assert set(described["responses"]) >= {"200", "404", "422", "503"}
    content = described["responses"]["200"]["content"]
    assert content["text/plain"]["example"].startswith("RESOURCE  AMOUNT  STEP")
    (reference,) = set(references(content["application/json"]["schema"])) & {
        one for one in references(page) if one.endswith("/ExplainedContainer")
    }
    found = page
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("%7B", "{").replace("%7D", "}")]
    assert "numbers" in found["properties"]


def references(part: object) -> list[str]:
    if isinstance(part, dict):
        here = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return here + [one for each in part.values() for one in references(each)]
    return [one for each in part for one in references(each)] if isinstance(part, list) else []
