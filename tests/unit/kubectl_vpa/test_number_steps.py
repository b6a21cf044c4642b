"""The steps of a number as text in ``kubectl vpa explain``."""

import pytest

from common.resources import CPU, MEMORY
from kubectl_vpa.output.number_steps import steps_text
from kubectl_vpa.results.explain import ComputedNumber, NumberStep
from recommender.estimate.step_reasons import StepReason

FIRST = ("percentile", "0.9", None, "100m")


def number(
    *steps: tuple[str, str, str | None, str | None], published: str | None = None
) -> ComputedNumber:
    return ComputedNumber(
        amount="target",
        value=steps[-1][3],
        published=published,
        steps=tuple(
            NumberStep(step=step, by=by, before=before, after=after, meaning="")
            for step, by, before, after in steps
        ),
    )


CASES = [
    pytest.param((FIRST,), "percentile 90: 100m", id="a percentile"),
    pytest.param((("percentile", "0.995", None, "1"),), "percentile 99.5: 1", id="a fine one"),
    pytest.param(
        (FIRST, ("margin", "0.15", "100m", "115m"), ("minimum", "25m", "115m", "115m")),
        "percentile 90: 100m → margin 15%: 115m",
        id="a step without effect is left out",
    ),
    pytest.param(
        (FIRST, ("confidence", "0.0123456", "100m", "1m"), ("minimum", "25m", "1m", "25m")),
        "percentile 90: 100m → confidence x0.0123: 1m → pod minimum: 25m",
        id="little history",
    ),
    pytest.param(
        (FIRST, ("confidence", "inf", "100m", None), ("minimum", "25m", None, "25m")),
        "percentile 90: 100m → confidence xinf → pod minimum: 25m",
        id="no history",
    ),
    pytest.param(
        (FIRST, ("unobserved", "", "100m", None)),
        "no samples: nothing is recommended",
        id="no samples, and nothing published",
    ),
    pytest.param(
        (FIRST, ("unobserved", "", "100m", "2")),
        "percentile 90: 100m → too few samples, published stays: 2",
        id="no samples, but published",
    ),
    pytest.param(
        (FIRST, ("rounding", "50m", "100m", "150m"), ("max_allowed", "120m", "150m", "120m")),
        "percentile 90: 100m → rounded up to 50m: 150m → maxAllowed: 120m",
        id="rounding and a maximum",
    ),
    pytest.param(
        (FIRST, ("not_controlled", "", "100m", None)),
        "percentile 90: 100m → not controlled",
        id="not controlled",
    ),
    pytest.param(
        (FIRST, ("new_step", "", "100m", "90m")),
        "percentile 90: 100m → new step: 90m",
        id="a step of a newer recommender",
    ),
]


@pytest.mark.parametrize(("steps", "text"), CASES)
def test_steps_are_one_line(
    steps: tuple[tuple[str, str, str | None, str | None], ...], text: str
) -> None:
    assert steps_text(CPU, number(*steps)) == text


@pytest.mark.parametrize(
    ("published", "text"),
    [
        pytest.param("100m", "percentile 90: 100m", id="the same"),
        pytest.param("0.1", "percentile 90: 100m", id="the same amount in another form"),
        pytest.param("99100u", "percentile 90: 100m", id="the same in three digits"),
        pytest.param("90m", "percentile 90: 100m; the status has 90m", id="another"),
        pytest.param(None, "percentile 90: 100m", id="none yet"),
    ],
)
def test_another_published_number_is_named(published: str | None, text: str) -> None:
    assert steps_text(CPU, number(FIRST, published=published)) == text


@pytest.mark.parametrize("step", StepReason)
def test_every_step_of_the_recommender_has_a_text(step: StepReason) -> None:
    text = steps_text(MEMORY, number((step, "0.5", None, "1Gi")))
    assert "1Gi" in text
    assert "_" not in text
