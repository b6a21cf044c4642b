"""Percentiles are computed only of what changed, with the same result as computing all."""

from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from common.labels import from_map
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.percentile_cache import PercentileCaches
from recommender.estimate.vpa_estimates import estimate_vpas
from recommender.model.expiry import collect
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage

NOW = instant(datetime(2026, 1, 10, tzinfo=UTC))
MINUTE, DAY = span(timedelta(minutes=1)), span(timedelta(days=1))
APPS = ("blog", "shop", "wiki")
KEYS = tuple(VpaKey("town", app) for app in APPS)
POLICY = EstimationSettings()


def town() -> Usage:
    """Three VPAs with a pod of two containers each."""
    usage = Usage()
    for key in KEYS:
        usage.put_autoscaler(key, from_map({"app": key.name}), ())
        usage.put_pod(pod(key.name), NOW)
    return usage


def pod(app: str, *, version: str = "1") -> PodFacts:
    return PodFacts(
        key=PodKey("town", f"{app}-{version}"),
        uid=f"uid-{app}-{version}",
        labels={"app": app, "version": version},
        active=True,
        containers=("main", "side"),
    )


def use(usage: Usage, app: str, at: int, *, cpu: int = 100, memory: int = 10**8) -> None:
    rows = np.array(list(usage.pods[PodKey("town", f"{app}-1")].containers.values()))
    times = np.full(rows.size, at)
    usage.add_cpu(rows, times, np.full(rows.size, cpu), at)
    usage.add_memory(rows, times, np.full(rows.size, memory), at)


def test_what_did_not_change_is_not_computed_again() -> None:
    usage, cache = town(), PercentileCaches(POLICY)
    for app in APPS:
        use(usage, app, NOW)
    estimate_vpas(usage, KEYS, POLICY, NOW, cache)
    assert (cache.cpu.computed, cache.memory.computed) == (6, 6)
    estimate_vpas(usage, KEYS, POLICY, NOW + MINUTE, cache)
    assert (cache.cpu.computed, cache.memory.computed) == (6, 6), "there was no usage"
    use(usage, "shop", NOW + MINUTE)
    estimate_vpas(usage, KEYS, POLICY, NOW + MINUTE, cache)
    assert (cache.cpu.computed, cache.memory.computed) == (8, 6), "no higher peak of memory"
    use(usage, "wiki", NOW + MINUTE, memory=10**9)
    estimate_vpas(usage, KEYS, POLICY, NOW + MINUTE, cache)
    assert (cache.cpu.computed, cache.memory.computed) == (10, 8)


def test_what_vpas_that_went_saw_is_forgotten() -> None:
    usage, cache = town(), PercentileCaches(POLICY)
    estimate_vpas(usage, KEYS, POLICY, NOW, cache)
    cache.forget_all_but({KEYS[0]})
    estimate_vpas(usage, KEYS, POLICY, NOW, cache)
    assert cache.cpu.computed == 6 + 4


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("use", "roll out", "select", "collect", "nothing")),
        st.sampled_from(APPS),
        st.integers(1, 5000),
    ),
    max_size=12,
)


@settings(max_examples=50, deadline=None)
@given(steps=STEPS)
def test_numbers_are_those_of_computing_everything(steps: list[tuple[str, str, int]]) -> None:
    usage, cache = town(), PercentileCaches(POLICY)
    for number, (what, app, amount) in enumerate(steps):
        at = NOW + number * DAY
        match what:
            case "use":
                use(usage, app, at, cpu=amount, memory=amount * 2**20)
            case "roll out":
                usage.put_pod(pod(app, version=str(amount)), at)
            case "select":
                usage.put_autoscaler(VpaKey("town", app), from_map({"version": "1"}), ())
            case "collect":
                collect(usage, at, set())
        quick = estimate_vpas(usage, KEYS, POLICY, at, cache)
        whole = estimate_vpas(usage, KEYS, POLICY, at)
        for key in KEYS:
            cached, computed = quick.of(key), whole.of(key)
            assert cached.targets.tolist() == computed.targets.tolist()
            assert cached.bounds.tolist() == computed.bounds.tolist()
            assert cached.containers == computed.containers
            assert cached.is_confident == computed.is_confident
