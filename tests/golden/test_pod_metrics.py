"""Amounts read from PodMetrics compared with the reference."""

import msgspec

from common.api.metrics import PodMetrics
from golden_data import Differences, rows
from recommender.model.keys import PodKey
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.sources.metrics_server import ContainerSamples, UsageBatch, batch
from recommender_golden import from_text, pod_facts


def samples(samples: ContainerSamples) -> dict[int, tuple[int, int]]:
    columns = (samples.rows.tolist(), samples.times.tolist(), samples.amounts.tolist())
    return {row: (time, amount) for row, time, amount in zip(*columns, strict=True)}


def test_pod_metrics() -> None:
    differences = Differences()
    for row in rows("pod_metrics"):
        metrics = msgspec.convert(row.input, PodMetrics)
        key = PodKey(metrics.metadata.namespace, metrics.metadata.name)
        names = [container["container"] for container in row.expected]
        usage = Usage()
        usage.put_pod(pod_facts(key, names), now=instant(None))
        got: UsageBatch = batch([metrics], usage.pods)
        cpu, memory = samples(got.cpu), samples(got.memory)
        given = {one["name"]: one.get("usage", {}) for one in row.input["containers"]}
        for want in row.expected:
            number = usage.pods[key].containers[want["container"]]
            time = from_text(want["time"])
            for resource, found in (("cpu", cpu), ("memory", memory)):
                # Q8: a missing amount gives no sample; the reference reads zero.
                missing = resource not in given[want["container"]]
                expected = None if missing else (time, want["usage"][resource])
                what = f"{want['container']} {resource}"
                differences.check(row.id, what, found.get(number), expected)
    differences.none_in(400)
