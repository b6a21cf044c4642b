"""One simulated kubelet that a test drives step by step."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from sandbox.kubelet.faults import PREFIX
from sandbox.kubelet.loads import Match, UsageRule
from sandbox.kubelet.node import Node, NodeShape
from sandbox.kubelet.pod_lifecycle import Simulation
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.status import status_patch
from sandbox.kubelet.timing import Timing
from sandbox.kubelet.usage import Model
from sandbox.kubelet.wire import RunnablePod

BEGIN = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
MIB = 1024 * 1024
ANYWHERE = Match()
TIMING = Timing(
    start_delay=1, init_delay=2, stop_delay=3, resize_delay=1, restart_delay=1, retry_failed=10
)


class Kubelet:
    """A node with a separate clock; objects are posted to it as the API server would send them."""

    def __init__(
        self,
        *,
        minor: int = 36,
        memory: Model | None = None,
        cpu: int = 1000,
        pods: int = 9,
    ) -> None:
        self.now = BEGIN
        simulation = Simulation(
            minor=minor,
            timing=TIMING,
            usage=(UsageRule(match=ANYWHERE, memory=memory),),
        )
        shape = NodeShape(name="n", capacity=Totals(cpu, 1000 * MIB), pods=pods)
        self.node = Node(shape, simulation)
        self.objects: dict[str, dict[str, Any]] = {}

    def post(self, name: str = "web", **keywords: Any) -> None:
        """Create or change a pod, and increment its generation."""
        old = self.objects.get(name)
        generation = 1 if old is None else old["metadata"]["generation"] + 1
        self.objects[name] = raw = pod(name, generation=generation, **keywords)
        self.node.observe(msgspec.convert(raw, RunnablePod), self.now, new_ip="10.244.0.9")
        self.settle()

    def settle(self) -> None:
        """Do everything that is due now."""
        while self.node.touched:
            self.node.advance(self.node.touched.pop(), self.now)
        for uid in list(self.node.pods):
            self.node.advance(uid, self.now)

    def wait(self, seconds: float) -> None:
        """Advance the clock from one due time to the next; memory is sampled every second."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            plans = [one.due(self.now) for one in self.node.pods.values()]
            self.now = min(
                [plan for plan in plans if plan is not None and plan > self.now]
                + [end, self.now + timedelta(seconds=1)]
            )
            self.node.enforce_memory_limits(self.now)
            self.settle()

    def exit(self, code: int) -> None:
        """End the main container of the pod ``web``."""
        run = self.node.pods["uid-web"]
        run.end(run.containers["app"], self.now, exit_code=code)
        self.settle()

    def status(self, name: str = "web") -> dict[str, Any]:
        run = self.node.pods[f"uid-{name}"]
        patch = status_patch(run, host_ip="10.0.0.1", now=self.now)
        assert patch["metadata"] == {"uid": f"uid-{name}"}
        status: dict[str, Any] = patch["status"]
        return status

    def container(self, name: str = "web") -> dict[str, Any]:
        found: dict[str, Any] = self.status(name)["containerStatuses"][0]
        return found

    def conditions(self, name: str = "web") -> dict[str, dict[str, Any]]:
        return {one["type"]: one for one in self.status(name)["conditions"]}

    def gone(self) -> bool:
        """Return whether the kubelet has finished with the pod."""
        return self.node.pods["uid-web"].ended

    def resize(self, name: str = "web") -> list[tuple[str, str]]:
        """Return the type and reason of the resize conditions."""
        return [
            (kind, one["reason"] or "")
            for kind, one in self.conditions(name).items()
            if kind.startswith("PodResize") and one.get("$patch") != "delete"
        ]

    def reasons(self, name: str = "web") -> list[str]:
        return [notice.reason for notice in self.node.pods[f"uid-{name}"].notices]


def pod(
    name: str,
    *,
    generation: int,
    cpu: str = "100m",
    memory: str = "100Mi",
    limits: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    policy: Sequence[tuple[str, str]] = (),
    deleting: bool = False,
    grace: int = 30,
    priority: int = 0,
    init: Sequence[dict[str, Any]] = (),
    restart_policy: str = "Always",
    whole: dict[str, Any] | None = None,
    **container: Any,
) -> dict[str, Any]:
    """Return a pod with one main container; ``whole`` is its pod-level ``resources``."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": limits or {}}
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "generation": generation,
        "annotations": {PREFIX + key: value for key, value in (annotations or {}).items()},
    }
    if deleting:
        metadata["deletionTimestamp"] = BEGIN
        metadata["deletionGracePeriodSeconds"] = grace
    resize_policy = [{"resourceName": one, "restartPolicy": what} for one, what in policy]
    main = {"name": "app", "image": "shop:1", "resources": resources, **container}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": "n",
            "priority": priority,
            "restartPolicy": restart_policy,
            **({} if whole is None else {"resources": whole}),
            "initContainers": list(init),
            "containers": [{**main, "resizePolicy": resize_policy}],
        },
    }


def merged(patch: Any) -> Any:
    """Return the result of a merge patch on nothing: null removes."""
    if isinstance(patch, dict):
        return {key: merged(value) for key, value in patch.items() if value is not None}
    return [merged(item) for item in patch] if isinstance(patch, list) else patch
