"""The webhook without a network: a scripted cluster, and a caller of ASGI."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

import asgi
from admission.admission_history import AdmissionHistory
from admission.app import webhook_app
from admission.metrics import AdmissionMetrics
from admission.pod_reviews import ReviewPolicy, VpaMatch
from admission.reviewer import Reviewer
from common.api.core import LimitRangeSpec
from common.api.meta import ObjectMeta
from common.features import FeatureGates
from common.quantity import ZERO, Quantity

POD = {"group": "", "version": "v1", "resource": "pods"}
VPA = {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"}


@dataclass
class FakeCluster:
    """A cluster that returns or raises ``found`` at every look-up, and records the pods."""

    found: VpaMatch | Exception = field(default_factory=VpaMatch)
    limits: Sequence[LimitRangeSpec] = ()
    synced: bool = True
    asked: list[ObjectMeta] = field(default_factory=list)

    async def match(self, pod: ObjectMeta) -> VpaMatch:
        self.asked.append(pod)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeSpec]:
        return self.limits


@dataclass
class Harness:
    """A webhook and its metrics."""

    cluster: Any = field(default_factory=FakeCluster)
    gates: str = ""
    most_boost: Quantity = ZERO
    lookup_timeout: float = 2.0
    history: AdmissionHistory | None = None

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        policy = ReviewPolicy(
            features=FeatureGates.parse(self.gates),
            most_boost=self.most_boost,
            lookup_timeout=self.lookup_timeout,
        )
        self.metrics = AdmissionMetrics(self.registry)
        self.reviewer = Reviewer(self.cluster, policy, self.metrics, history=self.history)
        self.app = webhook_app(self.reviewer, self.metrics)

    async def post(
        self,
        body: bytes,
        *,
        content_type: str = "application/json",
        pieces: Sequence[asgi.Message] | None = None,
        method: str = "POST",
        path: str = "/",
        query: str = "timeout=30s",
    ) -> tuple[int, bytes]:
        """Return HTTP status and body of the answer; ``pieces`` replaces the body's one message."""
        headers = {"content-type": content_type} if content_type else {}
        scope = asgi.scope_of(method, f"{path}?{query}", headers)
        messages = [*(pieces or asgi.pieces(body)), {"type": asgi.DISCONNECT}]
        response = await asgi.call(self.app, scope, messages)
        return response.status, response.body

    async def review(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ``response`` to a request, with the patch decoded."""
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        )
        status, answer = await self.post(body.encode())
        assert status == 200
        response: dict[str, Any] = json.loads(answer)["response"]
        if "patch" in response:
            response["patch"] = json.loads(base64.b64decode(response["patch"]))
        return response

    def counted(self, resource: str, outcome: str) -> float:
        labels = {"resource": resource, "outcome": outcome}
        return (
            self.registry.get_sample_value("vpa_admission_controller_reviews_total", labels) or 0.0
        )


def pod_request(pod: object, *, namespace: str = "default", uid: str = "u-1") -> dict[str, Any]:
    """Return a request to create a pod."""
    return {
        "uid": uid,
        "resource": POD,
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": namespace,
        "operation": "CREATE",
        "object": pod,
        "oldObject": None,
    }


def vpa_request(new: object, old: object = None, *, name: str = "my-vpa") -> dict[str, Any]:
    """Return a request to create a VPA, or to update ``old``."""
    return {
        "uid": "u-2",
        "resource": VPA,
        "requestKind": {
            "group": "autoscaling.k8s.io",
            "version": "v1",
            "kind": "VerticalPodAutoscaler",
        },
        "name": name,
        "namespace": "default",
        "operation": "CREATE" if old is None else "UPDATE",
        "object": new,
        "oldObject": old,
    }
