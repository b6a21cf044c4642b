"""Estimates compared with the reference: confidence, amounts, quantities before caps."""

from datetime import timedelta
from typing import Any

import numpy as np

from common.recommendation.processing import ContainerAmounts
from golden_data import Differences, Row, close, rows
from recommender.estimate.estimation import (
    EstimationSettings,
    Percentiles,
    ResourceEstimates,
    estimate_resources,
)
from recommender.estimate.post_processing import PostProcessingSettings, amounts_of, rounding_stages
from recommender.estimate.vpa_estimates import ContainerEstimate
from recommender.model.usage import Usage
from recommender_golden import feed, lone_container, series


def estimation_of(config: dict[str, Any]) -> EstimationSettings:
    cpu, memory = (
        Percentiles(
            target=config[f"target_{resource}_percentile"],
            lower=config[f"lower_{resource}_percentile"],
            upper=config[f"upper_{resource}_percentile"],
        )
        for resource in ("cpu", "memory")
    )
    return EstimationSettings(
        margin=config["margin_fraction"],
        pod_min_cpu=config["pod_min_cpu_millicores"],
        pod_min_memory=config["pod_min_memory_mb"],
        cpu=cpu,
        memory=memory,
        cpu_confidence=timedelta(seconds=config["confidence_interval_cpu_s"]),
        memory_confidence=timedelta(seconds=config["confidence_interval_memory_s"]),
    )


def test_estimator() -> None:
    differences = Differences()
    usage = Usage()
    streams = []
    aggregates: dict[str, list[list[int]]] = {}
    by_config: dict[str, list[Row]] = {}
    for row in rows("estimator"):
        by_config.setdefault(repr(row.input["config"]), []).append(row)
        members = aggregates.setdefault(row.id, [])
        for number, container in enumerate(row.input["containers"]):
            one = lone_container(usage, f"{row.id}-{number}")
            streams.append(series(one, container["ops"]))
            members.append([int(usage.containers.aggregate[one])])
    feed(usage, streams)
    for cases in by_config.values():
        # All rows with the same configuration are estimated at once, which is fast.
        sizes = np.array([len(aggregates[row.id]) for row in cases])
        merged = usage.aggregates.merged([one for row in cases for one in aggregates[row.id]])
        estimation = estimation_of(cases[0].input["config"])
        estimates = estimate_resources(merged, np.repeat(sizes, sizes), estimation)
        for row, first in zip(cases, np.cumsum(sizes) - sizes, strict=True):
            check_estimates(differences, row, estimates, int(first))
    differences.none_in(10_000)


def check_estimates(
    differences: Differences, row: Row, estimates: dict[str, ResourceEstimates], first: int
) -> None:
    """Compare the row's containers, which start at ``first`` in the estimates."""
    config = row.input["config"]
    publication = PostProcessingSettings(
        round_cpu=config["round_cpu_millicores"],
        round_memory=config["round_memory_bytes"],
        humanize_memory=config["humanize_memory"],
    )
    wanted = {
        one["containerName"]: one
        for one in row.expected["recommendation"].get("containerRecommendations", [])
    }
    for number, container in enumerate(row.input["containers"], start=first):
        name = container["name"]
        amounts = {
            kind: {
                resource: int(getattr(estimates[resource], kind)[number])
                for resource in container.get("controlled_resources", ["cpu", "memory"])
            }
            for kind in ("target", "lower", "upper")
        }
        want = row.expected["amounts"][name]
        for kind, values in amounts.items():
            # Another power function may round a lower bound differently, by one.
            slack = 1 if kind == "lower" else 0
            near = {
                resource: value
                for resource, value in want[kind].items()
                if abs(value - values.get(resource, -9)) <= slack
            }
            differences.check(row.id, f"{name} {kind} {values}", near, want[kind])
            values.update(near)
        for resource, confidence in row.expected["confidence"][name].items():
            got = float(estimates[resource].confidence[number])
            same = close(got, confidence, relative=1e-12)
            differences.check(row.id, f"{name} confidence {got}", same, True)
        estimate = ContainerEstimate(
            container=name,
            target=amounts["target"],
            lower=amounts["lower"],
            upper=amounts["upper"],
            confidence={},
        )
        *_, last = rounding_stages((amounts_of(estimate),), publication)
        (published,) = last.amounts
        differences.check(row.id, f"{name} texts", texts(published), wanted[name])


def texts(amounts: ContainerAmounts) -> dict[str, Any]:
    values = {
        "target": amounts.target,
        "lowerBound": amounts.lower_bound,
        "upperBound": amounts.upper_bound,
        "uncappedTarget": amounts.uncapped_target,
    }
    return {
        "containerName": amounts.name,
        **{
            key: {name: str(quantity) for name, quantity in quantities.items()}
            for key, quantities in values.items()
            if quantities or key == "target"
        },
    }
