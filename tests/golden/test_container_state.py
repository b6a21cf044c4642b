"""Samples, windows and OOMs of one container, and its aggregates, compared with the reference."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from common.api.autoscaling import CheckpointStatus, ContainerPolicy
from common.errors import DecodeError
from common.labels import from_map
from golden_data import Differences, Row, rows
from recommender.checkpoints.codec import decode
from recommender.model.aggregates import Aggregates, AggregationRules, HalfLives
from recommender.model.keys import VpaKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.sources.conversion import container_rule
from recommender_golden import (
    check_histogram,
    check_history,
    feed,
    from_text,
    lone_container,
    stream,
    to_text,
)

OUTCOMES = {
    True: True,
    False: False,
    OomOutcome.RECORDED: "ok",
    OomOutcome.TOO_OLD: "too_old",
    OomOutcome.INVALID: "failed",
}


def usage_of(config: dict[str, Any]) -> Usage:
    return Usage(
        defaults=AggregationRules(
            interval=timedelta(seconds=config["memory_interval_s"]),
            interval_count=config["memory_interval_count"],
            oom_bump_up_ratio=config["oom_bump_up_ratio"],
            oom_min_bump_up=config["oom_min_bump_up_bytes"],
        ),
        half_lives=HalfLives(
            cpu=timedelta(seconds=config["cpu_half_life_s"]),
            memory=timedelta(seconds=config["memory_half_life_s"]),
        ),
    )


def test_container_state() -> None:
    differences = Differences()
    # One table for all rows with the same configuration is faster, and shows that its rows
    # are independent.
    by_config: dict[str, list[Row]] = {}
    for row in rows("container_state"):
        by_config.setdefault(repr(row.input["config"]), []).append(row)
    for cases in by_config.values():
        usage = usage_of(cases[0].input["config"])
        numbers = [prepare(usage, row) for row in cases]
        streams = [
            stream(number, row.input["ops"]) for row, number in zip(cases, numbers, strict=True)
        ]
        for row, number, results in zip(cases, numbers, feed(usage, streams), strict=True):
            got = [OUTCOMES[result] for result in results]
            check_container(differences, row, usage, number, got)
    differences.none_in(30_000)


def prepare(usage: Usage, row: Row) -> int:
    number = lone_container(usage, row.id)
    if "policy" in row.input:
        policy = msgspec.convert(row.input["policy"], ContainerPolicy)
        rule = container_rule(policy, per_vpa_config=row.input["per_vpa_config"])
        usage.put_autoscaler(VpaKey("ns", row.id), from_map({"pod": row.id}), (rule,))
    return number


def check_container(
    differences: Differences, row: Row, usage: Usage, number: int, results: list[Any]
) -> None:
    want = row.expected
    aggregate = int(usage.containers.aggregate[number])
    one = np.array([aggregate])
    table = usage.aggregates
    differences.check(row.id, "results", results, want["results"])
    for what, got in (
        ("last_cpu", usage.containers.last_cpu[number]),
        ("last_memory", usage.containers.last_memory[number]),
        ("window_end", usage.containers.window_end[number]),
        ("first_sample", table.first_sample[aggregate]),
        ("last_sample", table.last_sample[aggregate]),
    ):
        same = abs(int(got) - from_text(want[what])) < 1000
        differences.check(row.id, f"{what} {to_text(int(got))}", same, True)
    for what, value in (
        ("samples", table.samples[aggregate]),
        ("memory_interval_s", table.interval[aggregate] // 1_000_000),
        ("oom_bump_up_ratio", table.oom_bump_up_ratio[aggregate]),
        ("oom_min_bump_up_bytes", table.oom_min_bump_up[aggregate]),
    ):
        differences.check(row.id, what, value, want[what])
    fractions = row.input["percentiles"]
    check_histogram(differences, row.id, table.cpu, aggregate, want["cpu"], fractions=fractions)
    if row.departure == "recommender.md-Q7":
        # We accept samples that the reference ignores: the peak is the highest one of the window.
        peak = max(usage.containers.peak[number], usage.containers.oom_peak[number])
        differences.check(row.id, "Q7", peak >= max(want["memory_peak"], want["oom_peak"]), True)
        return
    differences.check(row.id, "memory_peak", usage.containers.peak[number], want["memory_peak"])
    differences.check(row.id, "oom_peak", usage.containers.oom_peak[number], want["oom_peak"])
    check_histogram(
        differences, row.id, table.memory, aggregate, want["memory"], fractions=fractions
    )
    check_history(differences, row.id, table.save(one)[0], want["checkpoint"])


def test_aggregate_merge() -> None:
    differences = Differences()
    for row in rows("aggregate_merge"):
        usage = Usage()
        parts = []
        for number, part in enumerate(row.input["parts"]):
            if "ops" in part:
                container = lone_container(usage, f"part-{number}")
                feed(usage, [stream(container, part["ops"])])
                parts.append(int(usage.containers.aggregate[container]))
                continue
            try:
                history = decode(msgspec.convert(part["checkpoint"], CheckpointStatus))
            except (DecodeError, msgspec.ValidationError):
                differences.check(row.id, f"part {number}", part.get("error"), True)
            else:
                differences.check(row.id, f"part {number}", part.get("error", False), False)
                loaded = usage.aggregates.new()
                usage.aggregates.load(loaded, history)
                parts.append(loaded)
        merged = usage.aggregates.merged([parts])
        check_merged(differences, row, merged)
    differences.none_in(4_000)


def check_merged(differences: Differences, row: Row, merged: Aggregates) -> None:
    fractions = row.input["percentiles"]
    want = row.expected
    check_histogram(differences, row.id, merged.cpu, 0, want["cpu"], fractions=fractions)
    check_histogram(differences, row.id, merged.memory, 0, want["memory"], fractions=fractions)
    check_history(differences, row.id, merged.save(np.array([0]))[0], want["checkpoint"])


def test_aggregate_expiry() -> None:
    differences = Differences()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for row in rows("aggregate_expiry"):
        table = Aggregates(HalfLives())
        created = now - timedelta(seconds=row.input["created_ago_s"])
        rules = AggregationRules(
            interval=timedelta(seconds=row.input["memory_interval_s"]),
            interval_count=row.input["memory_interval_count"],
        )
        one = np.array([table.create(instant(created), rules)])
        last = instant(now - timedelta(seconds=row.input["last_sample_ago_s"]))
        for _ in range(row.input["cpu_samples"]):
            table.add_cpu(one, np.array([last]), np.array([100]))
        differences.check(row.id, "empty", bool(table.is_empty(one)[0]), row.expected["empty"])
        expired = bool(table.is_expired(one, instant(now))[0])
        differences.check(row.id, "expired", expired, row.expected["expired"])
    differences.none_in(100)
