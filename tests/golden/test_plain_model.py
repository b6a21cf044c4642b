"""The plain model of the specification compared with the reference.

test_model_agrees compares the recommender with this model in random streams, so the model must be
correct itself.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from golden_data import Differences, Row, close, rows
from reference_histogram import EPSILON, ZERO, Histogram
from reference_model import Cluster, Container, Policy, Rules

EVERY = 5  # it is slow
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
POD = ("ns", "pod")


def started(row: Row) -> tuple[Cluster, Rules]:
    config = row.input["config"]
    rules = Rules(
        interval=timedelta(seconds=config["memory_interval_s"]),
        interval_count=config["memory_interval_count"],
        ratio=config["oom_bump_up_ratio"],
        min_bump_up=config["oom_min_bump_up_bytes"],
    )
    cluster = Cluster(timedelta(seconds=config["memory_half_life_s"]), rules)
    cluster.put_pod("uid", POD, {"app": "web"}, ["app"], active=True, now=EPOCH)
    return cluster, rules


def replay(cluster: Cluster, ops: list[Any]) -> list[Any]:
    results: list[Any] = []
    for kind, t_ms, amount in ops:
        at = EPOCH + timedelta(milliseconds=t_ms)
        if kind == "oom":
            outcome = cluster.add_oom("uid", "app", at, amount, at)
            results.append({"recorded": "ok"}.get(outcome, outcome))
        else:
            add = cluster.add_cpu if kind == "cpu" else cluster.add_memory
            results.append(add("uid", "app", at, amount, at))
    return results


def test_one_container() -> None:
    differences = Differences()
    for number, row in enumerate(rows("container_state")):
        config = row.input["config"]
        has_one_half_life = config["cpu_half_life_s"] == config["memory_half_life_s"]
        if number % EVERY or row.departure or "policy" in row.input or not has_one_half_life:
            continue
        cluster, _ = started(row)
        results = replay(cluster, row.input["ops"])
        differences.check(row.id, "results", results, row.expected["results"])
        check(differences, row, cluster.pods["uid"].containers["app"])
    differences.none_in(1_000)


def check(differences: Differences, row: Row, container: Container) -> None:
    want, aggregate = row.expected, container.aggregate
    for what, time in (
        ("last_cpu", container.last_cpu),
        ("last_memory", container.last_mem),
        ("window_end", container.window_end),
        ("first_sample", aggregate.first_sample),
        ("last_sample", aggregate.last_sample),
    ):
        expected = ZERO if want[what] is None else datetime.fromisoformat(want[what])
        differences.check(row.id, what, abs(time - expected) < timedelta(milliseconds=1), True)
    differences.check(row.id, "peak", container.mem_peak, want["memory_peak"])
    differences.check(row.id, "oom", container.oom_peak, want["oom_peak"])
    differences.check(row.id, "samples", aggregate.samples, want["samples"])
    for resource, histogram in (("cpu", aggregate.cpu), ("memory", aggregate.memory)):
        check_histogram(differences, row, histogram, want[resource])
        saved = want["checkpoint"][f"{resource}Histogram"]
        weights = {int(bucket): n for bucket, n in saved.get("bucketWeights", {}).items()}
        differences.check(row.id, f"{resource} saved", histogram.save(), weights)


def check_histogram(
    differences: Differences, row: Row, histogram: Histogram, want: dict[str, Any]
) -> None:
    total = want["total_weight"]
    differences.check(row.id, f"total {total}", close(histogram.total, total), True)
    expected = {int(bucket): weight for bucket, weight in want["weights"].items()}
    for bucket, weight in expected.items():
        if weight >= EPSILON:
            same = close(histogram.weights[bucket], weight)
            differences.check(row.id, f"weight of {bucket}", same, True)
    for what, got in (("empty", histogram.empty), ("min_bucket", histogram.min)):
        differences.check(row.id, what, got, want[what])
    for fraction, value in zip(row.input["percentiles"], want["percentiles"], strict=True):
        if value is not None:
            amount = round(value * histogram.scale.unit)
            near = abs(histogram.percentile(fraction) - amount) <= 1
            differences.check(row.id, f"percentile {fraction}", near, True)


def test_policies_of_the_plain_model() -> None:
    cluster, _ = started(next(iter(rows("container_state"))))
    for name, ratio in (("b", 3.0), ("a", 2.0)):
        cluster.put_vpa(("ns", name), {"app": "web"}, [Policy(container="app", ratio=ratio)])
    key = ("ns", "app", "app=web")
    assert cluster.rules_of(key).ratio == 3.0
    cluster.put_vpa(("ns", "b"), None, [])
    assert cluster.rules_of(key).ratio == 2.0
