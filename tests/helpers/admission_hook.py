"""The webhook over HTTPS in a sandbox cluster. A test can switch its patches off."""

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from admission.cluster import CachedCluster
from admission.metrics import AdmissionMetrics
from admission.pod_reviews import ReviewPolicy
from admission.reviewer import Reviewer
from certs.authority import Bundle
from common.features import FeatureGates
from common.kube.client import KubeClient
from https_hook import serving_hook
from synced_caches import following
from webhook_simulation import POD_RULE, throwaway_bundle

AGENT = "vpa-admission-controller"


@dataclass(slots=True)
class AdmissionHook:
    """A server that reviews new pods with the product's code and separate caches."""

    cluster: CachedCluster
    reviewer: Reviewer
    patches: bool = True

    @classmethod
    def of(cls, client: KubeClient) -> "AdmissionHook":
        cluster, policy = CachedCluster(client), ReviewPolicy(features=FeatureGates())
        return cls(cluster, Reviewer(cluster, policy, AdmissionMetrics(CollectorRegistry())))

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.patches:
            answer = await self.reviewer.answer("application/json", body)
            return web.Response(body=answer.body, content_type="application/json")
        review = msgspec.json.decode(body)
        response = {"uid": review["request"]["uid"], "allowed": True}
        kinds = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**kinds, "response": response})

    @contextlib.asynccontextmanager
    async def serving(
        self, folder: Path, *, lifetime: timedelta = timedelta(days=2)
    ) -> AsyncIterator[dict[str, Any]]:
        """Serve reviews; yield the webhook configuration to create."""
        bundle = throwaway_bundle(lifetime)
        async with (
            following(self.cluster.caches),
            serving_hook(self.handle, bundle.server, folder) as port,
        ):
            yield _registration(bundle, port)


def _registration(bundle: Bundle, port: int) -> dict[str, Any]:
    authority = base64.b64encode(bundle.authority.certificate).decode()
    hook = {
        "name": "vpa.k8s.io",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": authority},
        "rules": [POD_RULE],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "vpa-webhook-config"}, "webhooks": [hook]}
