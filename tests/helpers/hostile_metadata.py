"""Metadata and conditions of objects of all kinds, with random texts."""

import json
from dataclasses import dataclass
from typing import Any

from common.annotations import (
    IN_PLACE_UPDATED,
    OBSERVED_CONTAINERS,
    STARTUP_BOOST_PREFIX,
    VPA_UPDATES,
)
from hostile_texts import ODD_QUANTITIES, HostileTexts

Json = dict[str, Any]

VICTIMS = ("victim-0", "victim-1")  # existing workloads


@dataclass(slots=True, kw_only=True)
class HostileMetadata(HostileTexts):
    """A generator of metadata; ``number`` is that of the object, and part of its name."""

    number: int = 0

    def meta(self, prefix: str, **more: Any) -> Json:
        found: Json = {"name": f"{prefix}-{self.number}", **more}
        if self.often(0.5):
            found["annotations"] = {**self.annotations(), **more.get("annotations", {})}
        if self.often(0.02):
            found["labels"] = {**more.get("labels", {}), self.text(): self.text()}
        if self.often(0.3):
            found["ownerReferences"] = [self.owner()]
        return found

    def annotations(self) -> Json:
        resources = {"cpu": self.text(), "memory": str(self.random.choice(ODD_QUANTITIES))}
        boost = {self.any_of("requests", "limits"): resources, "limits": {}}
        found = {
            VPA_UPDATES: self.text(),
            OBSERVED_CONTAINERS: self.any_of("app", "app, app", ", ", "app,", "APP"),
            IN_PLACE_UPDATED: self.any_of("true", "false"),
            f"{STARTUP_BOOST_PREFIX}app": self.any_of(
                json.dumps(boost), '{"requests":{"cpu":"\\ud800"}}', "[" * 5000, "null"
            ),
            f"{STARTUP_BOOST_PREFIX}{'x' * 63}": self.text(),
            "example.com/any": self.text(),
        }
        return {key: value for key, value in found.items() if self.often(0.5)}

    def owner(self) -> Json:
        """Return an owner reference without empty parts; an API server checks nothing else."""
        api_version = self.api_version("apps/v1")
        kinds = ("ReplicaSet", "Deployment", "Robot", "Job", "StatefulSet")
        return {
            "apiVersion": api_version if api_version.rpartition("/")[2] else "v1",
            "kind": self.any_of(*kinds) or "Job",
            "name": self.any_of(*VICTIMS, "missing") or "missing",
            "uid": self.or_text("1") or "1",
            "controller": self.often(0.8),
        }

    def conditions(self) -> list[Json]:
        return [
            {
                "type": self.any_of(
                    *("Ready", "PodResizePending", "PodResizeInProgress"),
                    *("RecommendationProvided", "ConfigUnsupported"),
                ),
                "status": self.any_of("True", "False"),
                "reason": self.any_of("Deferred", "Infeasible", "Error"),
                "message": self.text(),
                "lastTransitionTime": self.time(),
            }
            for _ in range(self.random.randint(0, 3))
        ]
