"""X125: amounts that are published for a container with little history."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from common.recommendation.processing import ContainerAmounts
from common.resources import parse_quantities
from recommender.estimate.amount_selection import CurrentRecommendation
from recommender.estimate.post_processing import PostProcessingSettings, post_process
from recommender.estimate.vpa_estimates import ContainerEstimate

BOTH = frozenset(("cpu", "memory"))
NONE: frozenset[str] = frozenset()
APP = frozenset(("app",))
SURE, UNSURE = 1.0, 0.999
ESTIMATED, PUBLISHED = {"cpu": "1", "memory": "1k"}, {"cpu": "3", "memory": "3k"}
MIB_3 = {"cpu": "3", "memory": "1k"}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    observed: frozenset[str] = BOTH
    confidence: float = UNSURE
    published: Mapping[str, str] | None = None
    stale: frozenset[str] = NONE
    killed: frozenset[str] = NONE
    memory: int = 1000  # as estimated, in bytes
    without_samples: bool = False
    want: Mapping[str, str] | None
    unknown: tuple[str, ...] = ()
    is_stale: bool = False


CASES = [
    Case(id="new, with samples: the estimate", want=ESTIMATED),
    Case(id="new, without samples: no entry", observed=NONE, want=None, unknown=("app",)),
    Case(
        id="new, without CPU samples: memory alone",
        observed=frozenset(("memory",)), want={"memory": "1k"}, unknown=("app (cpu)",),
    ),
    Case(
        id="new, without memory samples: CPU alone",
        observed=frozenset(("cpu",)), want={"cpu": "1"}, unknown=("app (memory)",),
    ),
    Case(
        id="--publish-without-samples: the estimate, without a note",
        observed=NONE, without_samples=True, want=ESTIMATED,
    ),
    Case(id="published, with samples: the estimate", published=PUBLISHED, want=ESTIMATED),
    Case(
        id="X31: published, without samples: unchanged",
        observed=NONE, published=PUBLISHED, want=PUBLISHED, unknown=("app",),
    ),
    Case(
        id="X31: published, without CPU samples: CPU is unchanged",
        observed=frozenset(("memory",)), published=PUBLISHED, want=MIB_3, unknown=("app (cpu)",),
    ),
    Case(
        id="X31: --publish-without-samples keeps the published amounts",
        observed=NONE, published=PUBLISHED, without_samples=True, want=PUBLISHED,
    ),
    Case(
        id="history expired, no samples since: unchanged",
        observed=NONE, published=PUBLISHED, stale=APP, want=PUBLISHED, unknown=("app",),
        is_stale=True,
    ),
    Case(
        id="history expired, just less than a day of samples since: unchanged",
        published=PUBLISHED, stale=APP, want=PUBLISHED, is_stale=True,
    ),
    Case(
        id="history expired, a day of samples since: the estimate",
        published=PUBLISHED, stale=APP, confidence=SURE, want=ESTIMATED,
    ),
    Case(
        id="history expired, but nothing was published: the estimate", stale=APP, want=ESTIMATED,
    ),
    Case(
        id="history expired, no samples since, nothing published: no entry",
        stale=APP, observed=NONE, want=None, unknown=("app",),
    ),
    Case(
        id="history expired of another container: the estimate",
        published=PUBLISHED, stale=frozenset(("db",)), want=ESTIMATED,
    ),
    Case(
        id="history expired, killed, more memory estimated: memory is raised",
        published=PUBLISHED, stale=APP, killed=APP, memory=3001,
        want={"cpu": "3", "memory": "3001"}, is_stale=True,
    ),
    Case(
        id="history expired, killed, no more memory estimated: unchanged",
        published=PUBLISHED, stale=APP, killed=APP, memory=3000, want=PUBLISHED, is_stale=True,
    ),
    Case(
        id="history expired, more memory estimated, not killed: unchanged",
        published=PUBLISHED, stale=APP, memory=9000, want=PUBLISHED, is_stale=True,
    ),
]  # fmt: skip  # a table: a row or two for each case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_x125_published_amounts(case: Case) -> None:
    amounts = {"cpu": 1000, "memory": case.memory}
    estimate = ContainerEstimate(
        container="app",
        target=amounts,
        lower=amounts,
        upper=amounts,
        confidence=dict.fromkeys(amounts, case.confidence),
        observed=case.observed,
    )
    before = {} if case.published is None else {"app": published(case.published)}
    found = post_process(
        [estimate],
        PostProcessingSettings(without_samples=case.without_samples),
        annotations={},
        policy=None,
        current=CurrentRecommendation(amounts=before, stale=case.stale, killed=case.killed),
    )
    want = [] if case.want is None else [published(case.want)]
    assert [one.target for one in found.amounts] == [one.target for one in want]
    assert list(found.amounts) == want
    assert found.selected.unknown == case.unknown
    assert found.selected.stale == (("app",) if case.is_stale else ())


def published(target: Mapping[str, Any]) -> ContainerAmounts:
    amounts = parse_quantities(target)
    return ContainerAmounts(
        name="app",
        target=amounts,
        lower_bound=amounts,
        upper_bound=amounts,
        uncapped_target=amounts,
    )


def test_x125_idle_containers_are_sorted_among_the_others_by_name() -> None:
    estimate = ContainerEstimate(
        container="b", target={"cpu": 1000}, lower={}, upper={}, confidence={"cpu": 1.0}
    )
    before = {name: replace(published(PUBLISHED), name=name) for name in ("a", "c")}
    found = post_process(
        [estimate],
        PostProcessingSettings(),
        annotations={},
        policy=None,
        current=CurrentRecommendation(amounts=before, idle={"a": BOTH, "c": frozenset(("cpu",))}),
    )
    assert [(one.name, sorted(one.target)) for one in found.amounts] == [
        ("a", ["cpu", "memory"]),
        ("b", ["cpu"]),
        ("c", ["cpu"]),
    ]
    assert found.selected.stale == ("a", "c")
