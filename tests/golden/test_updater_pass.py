"""Complete passes over one VPA and one ReplicaSet compared with the reference (updater.md 2-10)."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import msgspec

from common.api.autoscaling import ResourcePolicy, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.api.meta import LabelSelector
from common.errors import InvalidError
from common.features import FeatureGates
from common.labels import from_label_selector
from common.patches import Operation
from common.recommendation.policy import container_policy, is_off
from common.recommendation.resource_changes import ResourceChange
from common.target.controlling import SelectedVpa, controlling
from golden_data import Differences, Row, rows
from updater.actuation import PodActuator
from updater.decision import Reason
from updater.evaluate.update_verdict import Thresholds
from updater.eviction.breaker import BreakerTransition
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.plan.pod_outcome import PodEvent
from updater.resize.memory_decrease import MemoryDecreaseRules, MemoryUse
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot, update_mode
from updater.snapshot.live_pod import LivePod
from updater.state import ResizeBlocked
from updater_harness import NOW, WEB, run

# Rows without the tag D30, because their pods already violate the LimitRanges: a required request
# or limit is missing, or a default limit is below the request. Replacements would do so, too.
VIOLATIONS = frozenset(
    f"updater_pass-Recreate-{number}" for number in ("r00165", "r00259", "r00444")
)

# Resizes that the API server would refuse, because of a LimitRange's bounds, or of its default that
# changes the QoS class. Either the replacement would be refused as well, or no eviction is allowed.
REFUSED_RESIZES = frozenset(
    f"updater_pass-InPlaceOrRecreate-{number}"
    for number in ("r00027", "r00209", "r00283", "r00317")
)


@dataclass(slots=True)
class RecordingActuator(PodActuator):
    """Records all calls, and refuses all resizes if ``refuse_resizes`` is set."""

    refuse_resizes: bool
    calls: list[dict[str, Any]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        self.calls.append({"call": "eviction", "pod": pod.metadata.name})
        self.events += ["EvictedByVPA", "EvictedPod"]

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
        *,
        detail: str = "",
    ) -> Pod:
        if self.refuse_resizes:
            self.calls.append({"call": "resize", "fails": True, "pod": pod.metadata.name})
            raise InvalidError("refused", reason="Invalid")
        patch = msgspec.to_builtins(operations)
        self.calls.append({"call": "resize", "patch": list(patch), "pod": pod.metadata.name})
        self.events.append("InPlaceResizedByVPA")
        return pod

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        patch = msgspec.to_builtins(operations)
        self.calls.append({"call": "patch", "patch": list(patch), "pod": pod.metadata.name})

    def report(self, pod: Pod, vpa: VerticalPodAutoscaler, event: PodEvent) -> None:
        """Record the only one of these Events that the reference has."""
        if isinstance(event, ResizeBlocked) and event.skipped:
            self.events.append("InPlaceResizeSkipped")

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        """Do nothing: the reference has no circuit breaker."""


def _pod(raw: dict[str, Any]) -> LivePod:
    owner = {"kind": "ReplicaSet", "name": "web", "apiVersion": "apps/v1", "controller": True}
    deleted = NOW.isoformat() if raw["deletion_timestamp_set"] else None
    start = NOW - timedelta(seconds=raw["start_s_ago"])
    return msgspec.convert(
        {
            "metadata": {
                **raw["metadata"],
                "namespace": "default",
                "uid": raw["metadata"]["name"],
                "ownerReferences": [owner],
                "deletionTimestamp": deleted,
            },
            "spec": raw["spec"],
            "status": {"phase": raw["phase"], "startTime": start.isoformat()},
        },
        LivePod,
    )


def _snapshot(row: Row) -> ClusterSnapshot:
    given = row.input
    vpa = msgspec.convert(given["vpa"], VerticalPodAutoscaler)
    selector = from_label_selector(msgspec.convert(given["target_selector"], LabelSelector | None))
    candidates = [SelectedVpa(vpa, selector)]
    pods = [pod for pod in map(_pod, given["pods"]) if pod.metadata.deletion_timestamp is None]
    mine = tuple(pod for pod in pods if controlling(pod.metadata, WEB, candidates))
    mode = update_mode(vpa)
    assert mode is not None
    scaled = AutoscaledPods(
        vpa=vpa,
        mode=mode,
        pods=mine,
        controllers={pod.metadata.uid: WEB for pod in mine},
        replicas={WEB: given["replica_set_replicas"]},
        limit_ranges=tuple(msgspec.convert(given["limit_ranges"], list[LimitRangeSpec])),
    )
    return ClusterSnapshot(
        autoscaled=(scaled,) if mine else (),
        living=frozenset(pod.metadata.uid for pod in pods),
    )


def _rules(row: Row) -> Rules:
    given = row.input
    return Rules(
        thresholds=Thresholds(
            min_change=given["pod_update_threshold"],
            min_lifetime=timedelta(seconds=given["lifetime_threshold_s"]),
            quick_oom=timedelta(seconds=given["evict_after_oom_threshold_s"]),
        ),
        disruption=DisruptionPolicy(
            min_replicas=given["min_replicas"],
            tolerance_fraction=given["eviction_tolerance"],
            in_place_skips_budget=given["in_place_skip_disruption_budget"],
        ),
        features=FeatureGates(in_place=given["feature_gates"].get("InPlace", False)),
        checks_outcomes=False,  # the reference has no such check
        memory_decrease=MemoryDecreaseRules(largest_step=1),  # nor steps (X139)
    )


def _run(row: Row) -> RecordingActuator:
    actuator = RecordingActuator(refuse_resizes=row.input["resize_calls_fail"])
    given = _snapshot(row)
    unused = MemoryUse(
        most=0, oldest=NOW - timedelta(hours=1), newest=NOW
    )  # X139: usage prevents no decrease
    use = {
        pod.metadata.uid: {each.name: unused for each in pod.spec.containers}
        for scaled in given.autoscaled
        for pod in scaled.pods
    }
    asyncio.run(run(given, actuator, rules=_rules(row), memory_use=use))
    return actuator


def _without_switched_off(row: Row) -> Row:
    """Return the row without recommendations for containers of mode Off."""
    vpa = dict(row.input["vpa"])
    policy = msgspec.convert(vpa["spec"].get("resourcePolicy"), ResourcePolicy | None)
    status = vpa.get("status") or {}
    recommended = (status.get("recommendation") or {}).get("containerRecommendations") or []
    kept = [
        each for each in recommended if not is_off(container_policy(policy, each["containerName"]))
    ]
    if len(kept) == len(recommended):
        return row
    vpa["status"] = {"recommendation": {"containerRecommendations": kept}}
    return replace(row, input={**row.input, "vpa": vpa})


def _calls_by_pod(calls: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(call["call"], call["pod"]) for call in calls]


def _is_part_of(ours: dict[str, Any], recorded: dict[str, Any]) -> bool:
    return all(operation in recorded["patch"] for operation in ours.get("patch", ()))


def _has_best_effort_pod(row: Row) -> bool:
    return any(
        not any(container["resources"] for container in pod["spec"]["containers"])
        for pod in row.input["pods"]
    )


def test_updater_pass() -> None:
    differences = Differences()
    for row in rows("updater_pass"):
        actuator = _run(row)
        calls, recorded = actuator.calls, row.expected["calls"]
        stripped = _without_switched_off(row)
        if stripped is not row:  # A17: recommendations for these containers are ignored
            same = _run(stripped)
            differences.check(row.id, "A17", (calls, actuator.events), (same.calls, same.events))
        elif row.departure == "updater.md-D30" or row.id in VIOLATIONS:
            differences.check(row.id, "D30", (calls, actuator.events), ([], []))
        elif row.id in REFUSED_RESIZES:
            differences.check(row.id, "X110", (calls, actuator.events), ([], []))
        elif row.departure == "updater.md-D8":  # the budget delays some of the resizes
            left = {(call["call"], call["pod"]): call for call in recorded}
            differences.check(row.id, "D8 pods", set(_calls_by_pod(calls)) - set(left), set())
            patches = [_is_part_of(call, left[call["call"], call["pod"]]) for call in calls]
            differences.check(row.id, "D8 patches", all(patches), True)
            resizes = sum(call["call"] == "resize" for call in calls)
            differences.check(row.id, "D8 budget", resizes <= _allowed_disruptions(row), True)
        elif row.departure == "updater.md-D21":  # containers without a change are left out
            differences.check(row.id, "D21 pods", _calls_by_pod(calls), _calls_by_pod(recorded))
            patches = [_is_part_of(*both) for both in zip(calls, recorded, strict=True)]
            differences.check(row.id, "D21 patches", all(patches), True)
        elif _has_best_effort_pod(row) and _calls_by_pod(recorded)[:1] == [("resize", "web-0")]:
            # 4b: the API server would refuse the resize of this pod
            differences.check(row.id, "4b", [call["call"] for call in calls], [])
        else:
            differences.check(row.id, "calls", calls, recorded)
            differences.check(row.id, "events", actuator.events, row.expected["event_reasons"])
    differences.none_in(700)


def _allowed_disruptions(row: Row) -> int:
    """Return how many pods may be disrupted at once: none below the minimum number of replicas."""
    mine = [pod for pod in row.input["pods"] if pod["metadata"]["labels"] == {"app": "web"}]
    policy = row.input["vpa"]["spec"]["updatePolicy"]
    if row.input["in_place_skip_disruption_budget"]:
        return len(mine)
    if len(mine) < policy.get("minReplicas", row.input["min_replicas"]):
        return 0
    return max(1, int(row.input["replica_set_replicas"] * row.input["eviction_tolerance"]))
