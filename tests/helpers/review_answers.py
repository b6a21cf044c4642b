"""Properties of every answer of the webhook, for any posted body."""

import base64
import binascii
import json
from typing import Any

import jsonpatch

from admission.app import LARGEST_BODY
from review_strategies import Posted

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_OPERATIONS = {"add"}
_DEFAULT = {"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}
_STATUS = {"metadata", "status", "message", "reason", "details", "code"}
_RESPONSE = {"uid", "allowed", "status", "patch", "patchType", "warnings"}


def complaint(posted: Posted, status: int, answer: bytes) -> str:
    """Return the error of an answer; empty if it follows the specification (admission.md 2)."""
    if len(posted.body) > LARGEST_BODY:
        return "" if status == 413 else f"a body that is too large gets {status}"
    if status != 200:
        return f"the status is {status}"
    try:
        review = json.loads(answer)
        response = review["response"]
        uid, allowed = response["uid"], response["allowed"]
    except (ValueError, KeyError, TypeError) as error:
        return f"no AdmissionReview: {error!r}"
    version = review.get("apiVersion")
    if version not in VERSIONS:
        return f"the version is {version!r}"
    if review != {"kind": "AdmissionReview", "apiVersion": version, "response": response}:
        return "something beside the response"
    if not isinstance(uid, str) or not isinstance(allowed, bool) or response.keys() - _RESPONSE:
        return "the response has another shape"
    if b"verticalpodautoscalers" not in posted.body and not allowed:
        return "a pod is refused"
    return _refusal(response) if not allowed else _patch(posted, response)


def _refusal(response: dict[str, Any]) -> str:
    status = response.get("status", {})
    if status.keys() != _STATUS or status["code"] != 422 or "patch" in response:
        return "the refusal has another shape"
    if not status["message"] or not status["details"]["causes"]:
        return "the refusal doesn't say why"
    return ""


def _patch(posted: Posted, response: dict[str, Any]) -> str:
    if "status" in response:
        return "a status beside allowed: true"
    if "patch" not in response:
        return "a patch type without a patch" if "patchType" in response else ""
    if response.get("patchType") != "JSONPatch":
        return "a patch without its type"
    try:
        operations = json.loads(base64.b64decode(response["patch"], validate=True))
    except (ValueError, binascii.Error) as error:
        return f"the patch can't be read: {error}"
    if not operations or {each["op"] for each in operations} != _OPERATIONS:
        return "the patch does not only add"
    if not posted.intact:
        return ""
    written = json.loads(posted.body)["request"]["object"]
    if operations == [_DEFAULT] and not isinstance(written.get("spec"), dict):
        return ""  # as the reference, by recorded rows; API servers refuse a VPA without a spec
    try:
        jsonpatch.apply_patch(written, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        return f"the patch can't be applied: {error}"
    return ""
