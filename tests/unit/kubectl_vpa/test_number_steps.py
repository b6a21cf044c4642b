"""The steps of a number as text in ``kubectl vpa explain``."""

from collections.abc import Sequence

import pytest

from common.resources import CPU, MEMORY
from kubectl_vpa.output.number_steps import steps_text
from kubectl_vpa.results.explain import ComputedNumber, NumberStep
from recommender.estimate.step_reasons import StepReason

Step = tuple[str, str, str | None, str | None]
"""The step, by what, and the amounts before and after."""

FIRST: Step = ("percentile", "0.9", None, "100m")


def number(*steps: Step, published: str | None = None) -> ComputedNumber:
    return ComputedNumber(
        amount="target",
        value=steps[-1][3],
        published=published,
        steps=tuple(
            NumberStep(step=step, by=by, before=before, after=after, meaning="")
            for step, by, before, after in steps
        ),
    )


STEPS = [
    ("a percentile", "percentile 90: 100m", (FIRST,)),
    ("a fine one", "percentile 99.5: 1", (("percentile", "0.995", None, "1"),)),
    ("a step without effect is left out", "percentile 90: 100m → margin 15%: 115m",
     (FIRST, ("margin", "0.15", "100m", "115m"), ("minimum", "25m", "115m", "115m"))),
    ("little history", "percentile 90: 100m → confidence x0.0123: 1m → pod minimum: 25m",
     (FIRST, ("confidence", "0.0123456", "100m", "1m"), ("minimum", "25m", "1m", "25m"))),
    ("no history", "percentile 90: 100m → confidence xinf → pod minimum: 25m",
     (FIRST, ("confidence", "inf", "100m", None), ("minimum", "25m", None, "25m"))),
    ("no samples, and nothing published", "no samples: nothing is recommended",
     (FIRST, ("unobserved", "", "100m", None))),
    ("no samples, but published", "percentile 90: 100m → too few samples, published stays: 2",
     (FIRST, ("unobserved", "", "100m", "2"))),
    ("rounding and a maximum", "percentile 90: 100m → rounded up to 50m: 150m → maxAllowed: 120m",
     (FIRST, ("rounding", "50m", "100m", "150m"), ("max_allowed", "120m", "150m", "120m"))),
    ("not controlled", "percentile 90: 100m → not controlled",
     (FIRST, ("not_controlled", "", "100m", None))),
    ("a step of a newer recommender", "percentile 90: 100m → new step: 90m",
     (FIRST, ("new_step", "", "100m", "90m"))),
]  # fmt: skip  # a table: a row or two for each case


@pytest.mark.parametrize(
    ("text", "steps"), [pytest.param(text, steps, id=name) for name, text, steps in STEPS]
)
def test_steps_are_one_line(text: str, steps: Sequence[Step]) -> None:
    assert steps_text(CPU, number(*steps)) == text


PUBLISHED = [
    ("the same", "100m", ""),
    ("the same amount in another form", "0.1", ""),
    ("the same in three digits", "99100u", ""),
    ("another", "90m", "; the status has 90m"),
    ("none yet", None, ""),
]


@pytest.mark.parametrize(
    ("published", "added"),
    [pytest.param(amount, added, id=name) for name, amount, added in PUBLISHED],
)
def test_another_published_number_is_named(published: str | None, added: str) -> None:
    assert steps_text(CPU, number(FIRST, published=published)) == f"percentile 90: 100m{added}"


@pytest.mark.parametrize("step", StepReason)
def test_every_step_of_the_recommender_has_a_text(step: StepReason) -> None:
    text = steps_text(MEMORY, number((step, "0.5", None, "1Gi")))
    assert "1Gi" in text
    assert "_" not in text
