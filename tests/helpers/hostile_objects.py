"""Objects of a tenant with random texts in every field in which an API server stores them.

Fields that an API server validates are mostly valid, so that most objects are stored.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from common.kube.endpoints import (
    CHECKPOINTS,
    EVENTS,
    LIMIT_RANGES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    VPAS,
    Endpoint,
)
from custom_kind import ROBOTS
from hostile_metadata import VICTIMS, HostileMetadata, Json
from hostile_texts import COUNTS, LONG, MODES, ODD_QUANTITIES, QUANTITIES, WEIGHTS
from recommender.checkpoints.checkpoint_annotations import SIDECAR, TARGET
from recommender.checkpoints.window_annotation import ANNOTATION as WINDOWS

DEEP: list[Any] = json.loads("[" * 900 + "]" * 900)  # the maximum that the sandbox stores
LONG_ONES = 7  # objects with this number modulo fifty have a long text
MOST_QUOTAS = 2  # per namespace; for each the sandbox lists all pods at each change of one


@dataclass(frozen=True, slots=True)
class Hostile:
    """An object and its status."""

    endpoint: Endpoint[Any]
    manifest: Json
    status: Json | None = None

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return str(self.manifest["metadata"]["name"])


@dataclass(slots=True, kw_only=True)
class HostileObjects(HostileMetadata):
    """A generator of objects for a namespace; the same random generator yields the same objects."""

    namespace: str
    _quotas: int = 0

    def draw(self) -> Hostile:
        """Return the next object of any kind; each fiftieth is a VPA with a long text."""
        if self.number % 50 == LONG_ONES:
            self.number += 1
            return self.vpa_with_a_long_text()
        kinds, shares = zip(*_SHARES, strict=True)
        (kind,) = self.random.choices(kinds, shares)
        if kind is HostileObjects.quota:
            self._quotas += 1
            if self._quotas > MOST_QUOTAS:
                kind = HostileObjects.event
        self.number += 1
        made: Hostile = kind(self)
        return made

    def vpa(self) -> Hostile:
        """Return a VPA that the webhook refuses, or one that it accepts."""
        spec = self.polite_spec() if self.often(0.5) else self.spec()
        return Hostile(VPAS, {"metadata": self.meta("vpa"), "spec": spec}, self.vpa_status())

    def vpa_with_a_long_text(self) -> Hostile:
        text = self.random.choice(("\x01", "a", "\u202e", "a/", "?")) * LONG
        target = {"apiVersion": "apps/v1", "kind": text, "name": VICTIMS[0]}
        return Hostile(VPAS, {"metadata": self.meta("vpa"), "spec": {"targetRef": target}})

    def polite_spec(self) -> Json:
        kind = self.any_of("Deployment", "Robot", "ReplicaSet") or "Job"
        policy = {"containerName": self.any_of("app", "*") or "app", "mode": "Auto"}
        return {
            "targetRef": {
                "apiVersion": self.random.choice(("apps/v1", "example.com/v1", "v1")),
                "kind": kind,
                "name": self.random.choice((*VICTIMS, "x" * 250, "\u00fc", "?", "#", "x y")),
            },
            "updatePolicy": {"updateMode": self.random.choice(MODES[:4])},
            "resourcePolicy": {"containerPolicies": [policy]},
            "recommenders": [{"name": self.any_of("default", "default")}],
        }

    def spec(self) -> Json:
        spec: Json = {
            "targetRef": {
                "apiVersion": self.api_version("apps/v1"),
                "kind": self.any_of("Deployment", "Deployment", "Robot", "ReplicaSet", "CronJob"),
                "name": self.any_of(*VICTIMS, chance=0.3),
            },
            "updatePolicy": {
                "updateMode": self.any_of(*MODES, chance=0.01),
                "minReplicas": self.random.choice(COUNTS),
                "evictAfterOOMSeconds": self.random.choice(COUNTS),
                "evictionRequirements": [
                    {
                        "resources": [self.any_of("cpu", "memory")],
                        "changeRequirement": "TargetHigherThanRequests",
                    }
                ],
            },
            "resourcePolicy": {
                "containerPolicies": [
                    self.container_policy() for _ in range(self.random.randint(0, 3))
                ]
            },
        }
        for optional in ("updatePolicy", "resourcePolicy"):
            if self.often(0.4):
                del spec[optional]
        if self.often(0.3):
            spec["recommenders"] = [{"name": self.or_text("default")}]
        if self.often(0.2):
            spec["startupBoost"] = {"cpu": self.boost()}
        return spec

    def container_policy(self) -> Json:
        found: Json = {
            "containerName": self.any_of("app", "*"),
            "mode": self.random.choice(("Auto", "Off")),
            "minAllowed": self.amounts(),
            "maxAllowed": self.amounts(),
            "controlledResources": [self.any_of("cpu", "memory")],
            "controlledValues": self.random.choice(("RequestsAndLimits", "RequestsOnly")),
            "oomBumpUpRatio": self.random.choice(ODD_QUANTITIES),
            "oomMinBumpUp": self.random.choice(ODD_QUANTITIES),
            "memoryAggregationIntervalSeconds": self.random.choice(COUNTS),
            "memoryAggregationIntervalCount": self.random.choice((*COUNTS, 2**62)),
            "startupBoost": {"cpu": self.boost()},
        }
        return {key: one for key, one in found.items() if self.often(0.4)}

    def boost(self) -> Json:
        duration = {"durationSeconds": self.random.choice(COUNTS)}
        if self.often(0.5):
            return {"type": "Factor", "factor": self.random.choice(COUNTS), **duration}
        return {"type": "Quantity", "quantity": self.random.choice(ODD_QUANTITIES), **duration}

    def vpa_status(self) -> Json | None:
        if self.often(0.3):
            return None
        recommendations = [
            {
                "containerName": self.or_text("app"),
                "target": self.amounts(),
                "lowerBound": self.amounts(),
                "upperBound": self.amounts(),
                "uncappedTarget": self.amounts(),
            }
            for _ in range(self.random.randint(0, 3))
        ]
        return {
            "recommendation": {"containerRecommendations": recommendations},
            "conditions": self.conditions(),
        }

    def checkpoint(self) -> Hostile:
        status = {
            "version": self.or_text("v3", 0.3),
            "lastUpdateTime": self.time(),
            "firstSampleStart": self.time(),
            "lastSampleStart": self.time(),
            "totalSamplesCount": self.random.choice((*COUNTS, 2**62)),
            "cpuHistogram": self.histogram(),
            "memoryHistogram": self.histogram(),
        }
        vpa = f"vpa-{self.number // 2}"
        spec = {"vpaObjectName": self.any_of(vpa, "vpa-1"), "containerName": self.or_text("app")}
        meta = self.meta("checkpoint")
        if self.often(0.3):
            meta["name"] = f"{vpa}-app"  # as the recommender itself names it
        meta["annotations"] = {**meta.get("annotations", {}), **self.notes(status)}
        return Hostile(CHECKPOINTS, {"metadata": meta, "spec": spec, "status": status})

    def notes(self, status: Json) -> Json:
        """Return the recommender's annotations for a checkpoint with this status."""
        window = ["0" * 15, 2**31, 2**40, *self.random.choices((*COUNTS, 2**62, self.text()), k=2)]
        windows = {
            "lastUpdateTime": status["lastUpdateTime"],
            "totalSamplesCount": status["totalSamplesCount"],
            "windows": self.random.choice(([window], [window[::-1]], window, self.text(), None)),
        }
        found = {
            TARGET: self.any_of("Deployment/victim-0", "Deployment/victim-1"),
            SIDECAR: self.any_of("true", "false"),
            WINDOWS: self.any_of(json.dumps(windows), '{"windows":' + "[" * 5000),
        }
        return {key: value for key, value in found.items() if self.often(0.6)}

    def histogram(self) -> Json:
        buckets = (
            self.any_of("0", "30", "175", "176", "-1", "1e3", "0x1", "1_0", "\u0661", "9" * 5000)
            for _ in range(self.random.randint(0, 5))
        )
        weights = (*WEIGHTS, self.text(), None, [], {"x": 1}, True, "10", DEEP)
        return {
            "referenceTimestamp": self.time(),
            "bucketWeights": {bucket: self.random.choice(weights) for bucket in buckets},
            "totalWeight": self.random.choice(WEIGHTS),
        }

    def pod(self) -> Hostile:
        container: Json = {
            "name": self.or_text("app", 0.02),
            "image": self.text().strip() or "app",
            "env": [{"name": "TEXT", "value": self.text()}],
            "args": [self.text()],
            "resources": {"requests": self.decent()},
        }
        if self.often(0.2):
            container["resources"] = {
                "requests": self.amounts(odd=False),
                "limits": self.amounts(odd=False),
            }
        spec: Json = {
            "containers": [container, self.other_container("second")],
            "schedulerName": self.or_text("missing") or "missing",  # so that it is never scheduled
            "terminationGracePeriodSeconds": 0,
        }
        if self.often(0.3):
            sidecar = self.other_container("sidecar")
            spec["initContainers"] = [{**sidecar, "restartPolicy": "Always"}]
        if self.often(0.1):
            spec["resources"] = {"requests": self.decent()}
        labels = {"app": self.random.choice(VICTIMS)}
        owners = [self.owner()] if self.often(0.8) else []
        meta = self.meta("pod", labels=labels)
        manifest = {"metadata": {"ownerReferences": owners, **meta}, "spec": spec}
        return Hostile(PODS, manifest, self.pod_status())

    def other_container(self, name: str) -> Json:
        return {"name": name, "image": name, "resources": {"requests": self.decent()}}

    def pod_status(self) -> Json | None:
        if self.often(0.1):
            return None
        found: Json = {
            "phase": self.any_of("Running", "Running", "Running", "Failed", chance=0.1),
            "reason": self.text(),
            "message": self.text(),
            "startTime": self.time(),
            "qosClass": self.any_of("Burstable", "BestEffort", chance=0.2),
            "conditions": self.conditions(),
            "containerStatuses": [self.container_status() for _ in range(2)],
            "initContainerStatuses": [self.container_status()],
            "resize": self.any_of("Deferred", "Infeasible", "InProgress"),
            "nominatedNodeName": self.or_text("", 0.1),
        }
        return {key: one for key, one in found.items() if self.often(0.8)}

    def container_status(self) -> Json:
        ended = {
            "reason": self.or_text("OOMKilled"),
            "message": self.text(),
            "exitCode": 137,
            "startedAt": self.time(),
            "finishedAt": self.time(),
            "containerID": self.text(),
        }
        running = {"running": {"startedAt": self.time()}}
        waiting = {"waiting": {"reason": self.text(), "message": self.text()}}
        return {
            "name": self.any_of("app", "second", "sidecar"),
            "ready": True,
            "restartCount": self.random.choice(COUNTS),
            "image": self.text(),
            "imageID": self.text(),
            "containerID": self.text(),
            "state": self.random.choice((running, waiting, {"terminated": ended}, {})),
            "lastState": {"terminated": ended} if self.often(0.5) else {},
            "resources": {"requests": self.amounts(), "limits": self.amounts()},
            "allocatedResources": self.amounts(),
        }

    def replica_set(self) -> Hostile:
        labels = {"app": self.random.choice(VICTIMS), "pod-template-hash": str(self.number)}
        pod = {"containers": [{"name": "app", "image": self.text().strip() or "app"}]}
        spec = {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": self.annotations()},
                "spec": pod,
            },
        }
        meta = self.meta("set", ownerReferences=[self.owner()])
        return Hostile(REPLICA_SETS, {"metadata": meta, "spec": spec})

    def limit_range(self) -> Hostile:
        """Return a LimitRange that doesn't prevent the creation of pods."""
        bounds: Json = {"min": {"cpu": "0", "memory": 0}, "max": {"cpu": "7E", "memory": "8Ei"}}
        bound = self.random.choice(tuple(bounds))
        amounts = {**bounds[bound], self.or_text("cpu"): self.random.choice(QUANTITIES)}
        items = [
            {"type": "Container", bound: bounds[bound]},
            {"type": self.text(), bound: amounts, "maxLimitRequestRatio": {self.text(): "2"}},
        ]
        return Hostile(LIMIT_RANGES, {"metadata": self.meta("limits"), "spec": {"limits": items}})

    def quota(self) -> Hostile:
        """Return a quota that doesn't prevent the creation of pods."""
        hard = {"requests.cpu": "9E", self.or_text("requests.memory", 0.1): "1e20"}
        status = {
            "hard": {**hard, self.text(): self.random.choice(QUANTITIES)},
            "used": {**dict.fromkeys(hard, "1"), self.text(): self.random.choice(QUANTITIES)},
        }
        manifest = {"metadata": self.meta("quota"), "spec": {"hard": hard}}
        return Hostile(RESOURCE_QUOTAS, manifest, status)

    def node(self) -> Hostile:
        status = {
            "allocatable": self.amounts(odd=False),
            "capacity": self.amounts(odd=False),
            "conditions": self.conditions(),
            "nodeInfo": {"kubeletVersion": self.text(), "osImage": self.text()},
        }
        spec = {"unschedulable": True, "providerID": self.text()}
        return Hostile(NODES, {"metadata": self.meta("node"), "spec": spec}, status)

    def event(self) -> Hostile:
        name = self.text().replace("/", "-").replace("%", "-")
        meta = self.meta("event")
        meta["name"] = f"{self.number}{name}"[:250]
        meta["annotations"] = {
            "offending_containers": self.any_of("app", "app,second", ","),
            "offending_containers_usage": self.any_of("1Gi", "1Gi,2Gi", "9" * 5000, "1e999999999"),
            "starved_resource": self.any_of("memory", "memory,memory"),
        }
        manifest = {
            "metadata": meta,
            "reason": self.or_text("Evicted", 0.2),
            "message": self.text(),
            "type": self.or_text("Warning"),
            "source": {"component": self.text(), "host": self.text()},
            "involvedObject": {
                "apiVersion": self.api_version("v1"),
                "kind": self.or_text("Pod", 0.2),
                "namespace": self.namespace,
                "name": self.any_of("pod-1", "pod-2", f"pod-{self.number - 1}"),
                "uid": self.text(),
                "fieldPath": self.text(),
            },
        }
        return Hostile(EVENTS, manifest)

    def robot(self) -> Hostile:
        spec = {
            "replicas": self.random.choice(COUNTS),
            "selector": self.any_of("app=victim-0", "app in (", "a=b,,", "!!", "app notin ()"),
        }
        meta = {**self.meta("robot"), "name": self.random.choice((*VICTIMS, f"r-{self.number}"))}
        return Hostile(ROBOTS, {"metadata": meta, "spec": spec})


_SHARES: tuple[tuple[Callable[[HostileObjects], Hostile], int], ...] = (
    (HostileObjects.vpa, 32),
    (HostileObjects.pod, 26),
    (HostileObjects.checkpoint, 14),
    (HostileObjects.replica_set, 6),
    (HostileObjects.event, 10),
    (HostileObjects.limit_range, 4),
    (HostileObjects.quota, 3),
    (HostileObjects.node, 2),
    (HostileObjects.robot, 3),
)
