"""The admission webhook that recorder and replay register with an API server.

It has no state: the path in the configuration determines the response.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fastapi import FastAPI, Response
from fastapi import Request as Asked

from recorded_requests.runner import Hook
from sandbox.listener import Listener
from sandbox.tls import make_credentials

app = FastAPI()


def _patched(*operations: dict[str, Any]) -> dict[str, Any]:
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


_LABEL = {"op": "add", "path": "/metadata/labels", "value": {"hook": "was-here"}}
_CPU = {"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "150m"}
REPLIES: dict[str, dict[str, Any]] = {
    "allow": {"allowed": True},
    "deny": {"allowed": False},
    "deny-message": {"allowed": False, "status": {"message": "not today"}},
    "deny-reason": {"allowed": False, "status": {"reason": "Expired", "message": "no"}},
    "deny-403": {"allowed": False, "status": {"code": 403, "message": "no"}},
    "deny-200": {"allowed": False, "status": {"code": 200, "message": "no"}},
    "warn": {"allowed": True, "warnings": ["mind the gap", "and the other"]},
    "label": _patched(_LABEL),
    "cpu": _patched(_CPU),
    "audit": {"allowed": True, "auditAnnotations": {"a": "b"}},
}


@app.post("/{name}")
async def answer(name: str, asked: Asked) -> Response:
    review = msgspec.json.decode(await asked.body())
    if name == "error":
        return Response(status_code=500, content=b"broken")
    uid = "other" if name == "other-uid" else review["request"]["uid"]
    reply = {"uid": uid, **REPLIES.get(name, {"allowed": True})}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": reply}
    return Response(content=msgspec.json.encode(body), media_type="application/json")


@asynccontextmanager
async def webhook() -> AsyncIterator[Hook]:
    """Run the webhook on a free loopback port."""
    credentials = make_credentials()
    async with Listener(app, tls=credentials.server_context()) as listener:
        authority = base64.b64encode(credentials.authority.encode()).decode()
        yield Hook(listener.url, authority)
