"""Replica groups, budgets and in-place decisions (updater.md 5, 6.1, 10).

The rows compare them with the reference.

Our functions answer the rows without a tag unchanged. In a tagged row each of our deviations
(D22, D32, 10.1, custom kinds) is undone beside the function that it is named in, and then the
result equals the recorded one; tables in ``tests/unit/updater`` test our own results. Two rules
are undone in all rows, because the tags don't cover all of theirs: D19 (a state with a message and
without a reason is Unknown, too), and the retry of an infeasible resize (10.5).
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.resources import parse_quantities
from common.target.owners import Controller
from golden_data import Differences, Row, rows
from updater.decision import Action, Decision, Reason
from updater.eviction.disruption_budget import (
    DisruptionBudget,
    DisruptionPolicy,
    GroupStanding,
    ReplicaGroup,
    replica_group,
)
from updater.eviction.eviction_decision import decide_eviction
from updater.resize.infeasible_resize import Infeasible, lower_somewhere
from updater.resize.resize_decision import decide_resize
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_status import ResizeStatus, resize_status, resizing_since
from updater.resize.resize_timeouts import Timeouts, unfinished
from updater.resize.startup_boost_end import decide_unboost, expired_boosts

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KNOWN_KINDS = ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")
STATUS = {
    "ResizeNone": ResizeStatus.NONE,
    "ResizeDeferred": ResizeStatus.DEFERRED,
    "ResizeInfeasible": ResizeStatus.INFEASIBLE,
    "ResizeInProgress": ResizeStatus.IN_PROGRESS,
    "ResizeError": ResizeStatus.ERROR,
    "ResizeUnknown": ResizeStatus.UNKNOWN,
}


def _ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def _pod(raw: dict[str, Any], kind: str, *, tagged: bool) -> Pod:
    """Return a pod whose memory request equals the target, and whose cpu request is lower."""
    conditions = [
        {**condition, "lastTransitionTime": _ago(condition.pop("last_transition_s_ago"))}
        for condition in map(dict, raw.get("conditions", ()))
    ]
    if tagged and conditions and conditions[0]["status"] != "True":
        conditions = []  # 10.1: in the reference the first condition hides the second
    if raw.get("ready_s_ago") is not None:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": _ago(raw["ready_s_ago"])}
        conditions.append(ready)
    boosted = {"vpaCpuStartupBoost/app": "{}"} if raw.get("boost_annotation") else None
    policies = [
        {"resourceName": name, "restartPolicy": "RestartContainer"}
        for name in raw.get("restart_container_resources", ())
    ]
    owner = {"kind": kind, "name": raw["owner"], "controller": True}
    return msgspec.convert(
        {
            "metadata": {
                "name": raw["name"],
                "uid": raw["name"],
                "annotations": boosted,
                "ownerReferences": [owner],
            },
            "spec": {
                "containers": [
                    {
                        "name": "app",
                        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
                        "resizePolicy": policies,
                    }
                ]
            },
            "status": {"phase": raw["phase"], "conditions": conditions},
        },
        Pod,
    )


@dataclass(slots=True)
class RowState:
    """One row, and the remaining budgets of its groups."""

    row: Row
    pods: dict[str, Pod] = field(default_factory=dict)
    groups: dict[str, ReplicaGroup] = field(default_factory=dict)
    results: list[object] = field(default_factory=list)

    @property
    def tagged(self) -> bool:
        return bool(self.row.departure)

    @property
    def mode(self) -> UpdateMode:
        return UpdateMode(self.row.input["update_mode"] or "Recreate")

    def prepare(self) -> None:
        given = self.row.input
        kinds = {controller["name"]: controller["kind"] for controller in given["controllers"]}
        owners = {raw["name"]: raw["owner"] for raw in given["pods"]}
        for raw in given["pods"]:
            self.pods[raw["name"]] = _pod(raw, kinds[raw["owner"]], tagged=self.tagged)
        for controller in given["controllers"]:
            name = controller["name"]
            pods = [pod for pod in self.pods.values() if owners[pod.metadata.name] == name]
            if not pods:
                continue
            group = replica_group(
                Controller("default", controller["kind"], name),
                pods,
                replicas=controller["replicas"],
                out=() if self.tagged else self._out(pods),  # D32
                boosted=any(pod.metadata.annotations for pod in pods),
                mode=self.mode,
                policy=DisruptionPolicy(
                    min_replicas=given.get("vpa_min_replicas") or given["min_replicas"],
                    tolerance_fraction=given["eviction_tolerance"],
                    in_place_skips_budget=given["in_place_skip_disruption_budget"],
                ),
            )
            if self.tagged and controller["kind"] not in KNOWN_KINDS:
                group = _as_reference_counts(group)
            self.groups[name] = group

    def _out(self, pods: list[Pod]) -> set[str]:
        restarting = {
            raw["name"] for raw in self.row.input["pods"] if raw.get("restart_container_resources")
        }
        return {
            pod.metadata.uid
            for pod in pods
            if pod.metadata.name in restarting
            and resize_status(pod) not in (ResizeStatus.NONE, ResizeStatus.INFEASIBLE)
        }

    def group(self, name: str) -> ReplicaGroup:
        (owner,) = (raw["owner"] for raw in self.row.input["pods"] if raw["name"] == name)
        return self.groups[owner]

    def spend(self, name: str) -> None:
        group = self.group(name)
        self.groups[group.controller.name] = group.spend(self.pods[name])

    def unfinished(self, pod: Pod) -> Decision | None:
        status = resize_status(pod)
        if status in (ResizeStatus.ERROR, ResizeStatus.UNKNOWN):
            return None  # D19: the reference times out immediately
        since = resizing_since(pod, sent_at=None, first_seen=None)
        return unfinished(status, since=since, timeouts=Timeouts(), now=NOW)

    def can_evict(self, name: str) -> bool:
        decision = decide_eviction(
            Reason.OUTSIDE_RANGE,
            self.pods[name],
            group=self.group(name),
            unfinished=self.unfinished(self.pods[name]),
            requirements_met=True,
            admission_ready=True,
        )
        return decision.action is Action.EVICT

    def can_in_place(self, name: str) -> str:
        if self.mode is UpdateMode.IN_PLACE and not self.row.input["feature_gates"].get("InPlace"):
            return "InPlaceDeferred"  # a pass skips the whole VPA
        (raw,) = (raw for raw in self.row.input["pods"] if raw["name"] == name)
        stored = raw.get("stored_infeasible_target")
        restarts = raw.get("restart_container_resources", ())
        if self.row.input["recommendation_target"] is None:
            return "InPlaceDeferred"  # a pass skips pods without recommendation
        target = parse_quantities(self.row.input["recommendation_target"])
        decided = decide_resize(
            Reason.OUTSIDE_RANGE,
            self.pods[name],
            mode=self.mode,
            group=self.group(name),
            plan=ResizePlan(
                operations=(),
                changes=frozenset({("app", "cpu")}),
                # D22: only cpu changes, so our rule ignores a resize policy of memory
                restarts=bool(restarts) if self.tagged else "cpu" in restarts,
                targets={"app": target},
            ),
            unfinished=self.unfinished(self.pods[name]),
            held=None,
            infeasible=self._infeasible(stored, self.pods[name]),
            skip_budget=self.row.input["in_place_skip_disruption_budget"],
        )
        return _reference_name(decided.decision)

    def _infeasible(self, stored: dict[str, str] | None, pod: Pod) -> Infeasible | None:
        if stored is None:
            return None
        failed = {"app": parse_quantities(stored)}
        current = {"app": parse_quantities(self.row.input["recommendation_target"])}
        if resize_status(pod) is ResizeStatus.INFEASIBLE and lower_somewhere(current, failed):
            return None  # 10.5: we retry, the reference does not
        return Infeasible(targets=failed, reported=False)

    def can_unboost(self, name: str) -> bool:
        if not self.row.input["feature_gates"].get("CPUStartupBoost"):
            return False
        if not self.row.input["vpa_has_startup_boost"]:
            return False
        pod = self.pods[name]
        expired = expired_boosts(pod, duration_of=lambda _: timedelta(seconds=60), now=NOW)
        decision = decide_unboost(pod, group=self.group(name), expired=expired)
        return decision.action is Action.RESIZE

    def run(self) -> None:
        for operation, name in self.row.input["ops"]:
            if operation == "resize_status":
                self.results.append(resize_status(self.pods[name]))
            elif operation == "can_in_place":
                self.results.append(self.can_in_place(name))
            elif operation == "can_unboost":
                self.results.append(self.can_unboost(name))
            elif operation == "can_evict":
                self.results.append(self.can_evict(name))
            elif operation == "evict":
                allowed = self.can_evict(name)
                if allowed and self.pods[name].status.phase != "Pending":
                    self.spend(name)
                self.results.append(allowed)
            else:
                assert operation == "in_place"
                # The reference checks only that the group was admitted.
                allowed = self.group(name).standing in (
                    GroupStanding.OPEN,
                    GroupStanding.IN_PLACE_ONLY,
                )
                if allowed:
                    self.spend(name)
                self.results.append(allowed)


def _as_reference_counts(group: ReplicaGroup) -> ReplicaGroup:
    """Return the group as the reference counts it: custom kinds have zero desired replicas."""
    budget = DisruptionBudget(configured=0, running=group.budget.running, tolerance=0)
    return replace(group, budget=budget)


def _reference_name(decision: Decision) -> str:
    if decision.action is Action.RESIZE:
        return "InPlaceApproved"
    if decision.action is Action.EVICT:
        return "InPlaceEvict"
    if decision.reason is Reason.INFEASIBLE_CACHED:
        return "InPlaceInfeasibleCached"
    if decision.reason is Reason.RESIZE_INFEASIBLE:
        return "InPlaceInfeasible"
    return "InPlaceDeferred"


def _counters(group: ReplicaGroup) -> dict[str, Any]:
    return {
        "below_min_replicas": group.standing is GroupStanding.IN_PLACE_ONLY,
        "configured": group.budget.configured,
        "pending": group.pending,
        "running": group.budget.running,
        "tolerance": group.budget.tolerance,
    }


def test_disruption_budget() -> None:
    differences = Differences()
    for row in rows("disruption_budget"):
        world = RowState(row)
        world.prepare()
        groups = {
            name: _counters(group)
            for name, group in world.groups.items()
            if group.standing in (GroupStanding.OPEN, GroupStanding.IN_PLACE_ONLY)
        }
        differences.check(row.id, "groups", groups, row.expected["groups"])
        world.run()
        for number, want in enumerate(row.expected["results"]):
            got = world.results[number]
            operation = row.input["ops"][number]
            differences.check(row.id, f"{number} {operation}", got, STATUS.get(str(want), want))
    differences.none_in(12000)
