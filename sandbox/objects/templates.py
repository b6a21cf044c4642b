"""The kinds that make pods, and where each keeps the template of them."""

from collections.abc import Mapping
from typing import Any, Final

TEMPLATES: Final[Mapping[str, str]] = {
    "CronJob": "spec.jobTemplate.spec.template",
    "DaemonSet": "spec.template",
    "Deployment": "spec.template",
    "Job": "spec.template",
    "ReplicaSet": "spec.template",
    "ReplicationController": "spec.template",
    "StatefulSet": "spec.template",
}
"""The path of the template, by kind."""


def template_of(kind: str, obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template that an object of one of these kinds has; empty where it has none."""
    found = obj
    for name in TEMPLATES[kind].split("."):
        found = found.get(name) or {}
    return found
