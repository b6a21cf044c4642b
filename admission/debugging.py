"""``POST /debug/explain`` on the ops address: explain the review of a pod.

The pod is judged as in a review, but nothing is counted and no pod is created.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import fastapi
import msgspec
from fastapi.responses import PlainTextResponse

from admission import manifest
from admission.explanation import PodExplanation, as_text, explain
from admission.manifest import Manifest, ManifestError
from admission.pod_reviews import PodVerdict
from admission.review import AdmissionRequest, GroupVersionResource
from common.api.base import Wire
from common.runtime.text_or_json import described, wants_text

PATH = "/debug/explain"

Judge = Callable[[AdmissionRequest], Awaitable[PodVerdict]]

_EXAMPLE = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, resources: {requests: {cpu: 100m}}}
"""


class ManifestRefusal(Wire, frozen=True, kw_only=True):
    """The error of a manifest: problem, field and fix."""

    error: str
    field: str
    fix: str


def router(judge: Judge) -> fastapi.APIRouter:
    """Return the router of the endpoint."""
    made = fastapi.APIRouter()

    @made.post(PATH, response_model=None, responses=_responses(), openapi_extra=_REQUEST)
    async def explain_pod(request: fastapi.Request, namespace: str = "") -> fastapi.Response:
        """Explain how the webhook would change a new pod.

        The body is a manifest in YAML or JSON: a Pod, or a Deployment, ReplicaSet, StatefulSet,
        DaemonSet, Job, CronJob or ReplicationController with a pod template. ``namespace`` applies
        to a manifest without a namespace. The response contains the patch and the patched pod.
        With ``Accept: text/plain`` it is readable text without the pod.
        """
        text = wants_text(request.headers.get("accept", ""))
        try:
            found = await _read(request, namespace)
        except ManifestError as error:
            return _refusal(error, text=text)
        reviewed = _review_of(found)
        answer = explain(await judge(reviewed), reviewed)
        return PlainTextResponse(as_text(answer)) if text else _json(answer)

    return made


async def _read(request: fastapi.Request, namespace: str) -> Manifest:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > manifest.LARGEST:
            break
    # In a thread, so that a large manifest doesn't delay reviews.
    return await asyncio.to_thread(manifest.read, b"".join(parts), namespace=namespace)


def _review_of(found: Manifest) -> AdmissionRequest:
    return AdmissionRequest(
        uid="explain",
        name=found.name,
        resource=GroupVersionResource(version="v1", resource="pods"),
        namespace=found.namespace,
        operation="CREATE",
        object=msgspec.Raw(found.object),
    )


def _refusal(error: ManifestError, *, text: bool) -> fastapi.Response:
    if text:
        answer = f"{error.field}: {error.problem}; {error.fix}\n"
        return PlainTextResponse(answer, status_code=error.status)
    return _json(
        ManifestRefusal(error=error.problem, field=error.field, fix=error.fix), error.status
    )


def _json(answer: Wire, status: int = 200) -> fastapi.Response:
    body = msgspec.json.encode(answer) + b"\n"
    return fastapi.Response(body, status_code=status, media_type="application/json")


_REQUEST = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": {"schema": {"type": "object"}, "example": _EXAMPLE},
            "application/json": {"schema": {"type": "object"}},
        },
    }
}


_described = partial(described, path=PATH, method="post")


def _responses() -> dict[int | str, dict[str, Any]]:
    refused = _described(
        ManifestRefusal, status=422, text="(the body): it is empty; post a manifest\n"
    )
    return {
        200: _described(PodExplanation, status=200, text="shop/web-*: patched\n")
        | {"description": "The patch of the pod, and its explanation."},
        400: refused | {"description": "Neither YAML nor JSON, or not one object."},
        413: refused | {"description": f"Larger than {manifest.LARGEST} bytes."},
        422: refused | {"description": "Not a manifest of a pod or of a pod template."},
    }
