"""Metrics, flags and Events of the updater compared with the reference's lists (updater.md 12)."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import UpdateMode
from common.kube.events import EventRecorder
from common.quantity import Quantity
from fake_api import FakeApi, Reply
from fixed_clock import FixedClock
from golden_data import lists
from reference_lists import check_flags, check_metrics
from updater.actuation import PodActuator
from updater.decision import Action, Decision, Reason
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.metrics import PassFigures, UpdaterMetrics, VpaLabels, size_label
from updater.resize.infeasible_resize import Infeasible
from updater.settings import UpdaterSettings
from updater.state import PodMemory, UpdaterState
from updater_harness import NAMES, NOW, OPEN, run, snapshot

COMPONENT = "updater"
LABELS = VpaLabels("1", UpdateMode.RECREATE, "web", "default")
OUR_OWN_FLAGS = {
    *(
        "context",
        "debug-endpoints",
        "event-burst",
        "event-driven",
        "capacity-check",
        "capacity-timeout",
        "memory-decrease-margin",
        "memory-decrease-pause",
        "event-qps",
        "eviction-outcome-check",
    ),
    *("pod-level-resources", "read-api", "replacement-dry-run"),
    *("in-place-deferred-timeout", "in-place-in-progress-timeout", "logging-format"),
    "max-allowed-cpu-boost",
}


async def observed() -> CollectorRegistry:
    """Return a registry in which every metric has one observation."""
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    metrics.prepare(LABELS)
    metrics.eviction_failed(LABELS, "EvictionError")
    metrics.resize_failed(LABELS, "InPlaceUpdateError")
    metrics.skipped_infeasible(LABELS)
    with metrics.timed("total"):
        await asyncio.sleep(0)
    figures = PassFigures()
    for tally in (figures.controlled, figures.evictable):
        tally["1", "Recreate"] += 2
    for tally in (figures.vpas_evictable, figures.vpas_evicted):
        tally["1", "Recreate"] += 1
    metrics.publish(figures)
    return registry


async def test_metrics_have_the_references_names_types_labels_and_buckets() -> None:
    check_metrics(COMPONENT, await observed())


async def test_gauges_by_size_have_every_size() -> None:
    value = (await observed()).get_sample_value
    assert value("vpa_updater_in_place_updatable_pods_total", {"vpa_size_log2": "19"}) == 0
    mode = {"vpa_size_log2": "2", "update_mode": "Recreate"}
    assert value("vpa_updater_evictable_pods_total", mode) is None


def test_a_pass_replaces_the_gauges_of_the_previous_pass() -> None:
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    figures = PassFigures()
    figures.candidates[Decision(Action.WAIT, Reason.BUDGET_EXHAUSTED)] += 3
    metrics.publish(figures)
    labels = {"decision": "wait", "reason": "budget_exhausted"}
    assert registry.get_sample_value("vpa_updater_candidate_pods", labels) == 3
    metrics.publish(PassFigures())
    assert registry.get_sample_value("vpa_updater_candidate_pods", labels) is None


@pytest.mark.parametrize(
    ("pods", "label"),
    [(0, "0"), (1, "0"), (2, "1"), (3, "1"), (4, "2"), (1 << 20, "20"), (1 << 21, "20")],
)
def test_size_label(pods: int, label: str) -> None:
    assert size_label(pods) == label


def test_flags_have_the_references_names_and_defaults() -> None:
    assert check_flags(COMPONENT, UpdaterSettings) == OUR_OWN_FLAGS


# Events

OUR_OWN_EVENTS = {"InPlaceResizeBlocked", "InPlaceResizeUnblocked"}
SUFFIX = re.compile(r" \[(\w+)\] \(VPA web; (.*)\)$")
CHANGES = "app cpu 10m -> 250m, memory 10Mi -> 256Mi"


def state_for(mode: UpdateMode) -> UpdaterState:
    """Return a state in which, in mode InPlace, web-1 was infeasible with this recommendation."""
    if mode is not UpdateMode.IN_PLACE:
        return UpdaterState()
    targets = {"app": {"cpu": Quantity.parse("250m"), "memory": Quantity.parse("256Mi")}}
    infeasible = Infeasible(targets=targets, reported=False)
    return UpdaterState({"uid-web-1": PodMemory(infeasible=infeasible)})


def add_replies(api: FakeApi) -> None:
    for index in range(3):
        path = f"/api/v1/namespaces/default/pods/web-{index}"
        answer = Reply(body={"metadata": {"name": f"web-{index}", "generation": 2}})
        api.on(f"POST {path}/eviction", Reply(status=201, body={"status": "Success"}))
        api.on(f"PATCH {path}/resize", answer)
        api.on(f"PATCH {path}", answer)
    api.on("POST /api/v1/namespaces/default/events", Reply(status=201, body={}))


@pytest.mark.parametrize("recorded", lists("events")["passes"], ids=lambda row: row["update_mode"])
async def test_events_have_the_texts_of_the_reference(recorded: dict[str, Any]) -> None:
    mode = UpdateMode(recorded["update_mode"])
    async with FakeApi() as api, api.client() as client:
        add_replies(api)
        events = EventRecorder(client, "vpa-updater", clock=FixedClock(NOW))
        tolerance = DisruptionPolicy(tolerance_fraction=recorded["eviction_tolerance"])
        await run(
            snapshot(mode, names=NAMES[:3]),
            PodActuator(client, events),
            state=state_for(mode),
            rules=replace(OPEN, disruption=tolerance),
        )
        sending = asyncio.create_task(events.run())
        route = "POST /api/v1/namespaces/default/events"
        own = 2 if mode is UpdateMode.IN_PLACE else 0  # Events of the blocked pod and of its VPA
        await api.asked(route, times=len(recorded["events"]) + own)
        sending.cancel()
        await asyncio.wait([sending])
        bodies = [each.json() for each in api.requests if f"{each.method} {each.path}" == route]
    sent = [each for each in bodies if each["reason"] not in OUR_OWN_EVENTS]
    assert len(bodies) - len(sent) == own
    described = [
        {
            "object": each["involvedObject"]["kind"],
            "reason": each["reason"],
            "type": each["type"],
            "message": SUFFIX.sub("", each["message"]),
        }
        for each in sent
    ]
    # The order of pods of equal rank is undefined.
    assert sorted(map(_described, described)) == sorted(map(_described, recorded["events"]))
    assert {each["source"]["component"] for each in sent} == {lists("events")["source_component"]}
    suffixes = [SUFFIX.search(each["message"]) for each in bodies]
    assert {found and found[1] for found in suffixes} <= {reason.value for reason in Reason}
    assert {found and found[2] for found in suffixes} == {CHANGES}


def _described(event: dict[str, Any]) -> tuple[str, ...]:
    return tuple(event[name] for name in ("object", "reason", "type", "message"))
