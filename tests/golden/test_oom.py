"""OOM kills read from pods and Events, compared with the reference."""

from collections.abc import Iterable
from typing import Any

import msgspec

from common.api.core import Event, Pod
from golden_data import Differences, rows
from recommender.sources.oom_kills import OomEvent, kills_between, kills_of_eviction


def written(kills: Iterable[OomEvent]) -> list[dict[str, Any]]:
    return [
        {
            "namespace": kill.pod.namespace,
            "pod": kill.pod.name,
            "container": kill.container,
            "time": kill.at.isoformat().replace("+00:00", "Z"),
            "memory_bytes": kill.memory,
        }
        for kill in kills
    ]


def test_pod_updates() -> None:
    differences = Differences()
    for row in rows("oom_pod_updates"):
        old, new = (msgspec.convert(row.input[key], Pod) for key in ("old", "new"))
        differences.check(row.id, "kills", written(kills_between(old, new)), row.expected)
    differences.none_in(600)


def test_eviction_events() -> None:
    differences = Differences()
    for row in rows("oom_eviction_events"):
        metadata = {key: row.input.get(key) for key in ("annotations", "creationTimestamp")}
        event = msgspec.convert(
            {
                "metadata": metadata,
                "involvedObject": row.input["involvedObject"],
                "reason": row.input["reason"],
            },
            Event,
        )
        differences.check(row.id, "kills", written(kills_of_eviction(event)), row.expected)
    differences.none_in(200)
