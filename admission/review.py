"""The AdmissionReview on the wire: requests of API servers, and encoded responses.

Source: k8s.io/api/admission/v1; admission.md 2 and kubernetes-resize.md 6.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
import msgspec

from admission.field_errors import FieldError, brief, quoted
from common.api.base import Wire
from common.errors import DecodeError
from common.patches import Operation

API_VERSION = "admission.k8s.io/v1"
OLD_API_VERSION = "admission.k8s.io/v1beta1"
KIND = "AdmissionReview"
VPA_GROUP = "autoscaling.k8s.io"
VPA_KIND = "VerticalPodAutoscaler"

_ABSENT = msgspec.Raw(b"null")


class ReviewSubject(enum.StrEnum):
    """The kind of object in a review; the value is the metric label."""

    POD = "Pod"
    VPA = "VPA"
    UNKNOWN = "unknown"


class GroupVersionResource(Wire, frozen=True, kw_only=True):
    """``request.resource``."""

    group: str = ""
    version: str = ""
    resource: str = ""


class GroupVersionKind(Wire, frozen=True, kw_only=True):
    """``request.requestKind``."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(Wire, frozen=True, kw_only=True):
    """``request``, with undecoded objects: their type depends on ``resource``."""

    uid: str = ""
    resource: GroupVersionResource = GroupVersionResource()
    request_kind: GroupVersionKind | None = None
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT
    dry_run: Any = None  # any value but true means false

    @property
    def subject(self) -> ReviewSubject:
        """Return the subject by group and resource; the registered rules restrict the rest."""
        return _SUBJECTS.get((self.resource.group, self.resource.resource), ReviewSubject.UNKNOWN)

    @property
    def size(self) -> int:
        """Return the size of the new and the old object in bytes."""
        return memoryview(self.object).nbytes + memoryview(self.old_object).nbytes

    def patched(self, patches: Sequence[Operation]) -> Any:
        """Return the object with ``patches`` applied."""
        found = msgspec.json.decode(self.object)
        return jsonpatch.JsonPatch(msgspec.to_builtins(patches)).apply(found, in_place=True)


_SUBJECTS = {
    ("", "pods"): ReviewSubject.POD,
    (VPA_GROUP, "verticalpodautoscalers"): ReviewSubject.VPA,
}


class Review(Wire, frozen=True, kw_only=True):
    """An AdmissionReview of an API server."""

    api_version: str = ""
    request: AdmissionRequest | None = None


class _DenialCause(Wire, frozen=True, kw_only=True):
    reason: str
    message: str
    field: str


class _DenialDetails(Wire, frozen=True, kw_only=True):
    name: str = ""
    group: str
    kind: str
    causes: tuple[_DenialCause, ...]


class _Status(Wire, frozen=True, kw_only=True):
    metadata: Mapping[str, str]  # always {}, and always written
    status: str
    message: str
    reason: str
    details: _DenialDetails
    code: int


class _Response(Wire, frozen=True, kw_only=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: bytes | None = None  # on the wire in base64
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


class _ReviewResponse(Wire, frozen=True, kw_only=True):
    kind: str
    api_version: str
    response: _Response


_decoder = msgspec.json.Decoder(Review)
_encoder = msgspec.json.Encoder()


def decode(body: bytes) -> Review:
    """Decode a review, but not the objects in it.

    Raises:
        DecodeError: the body is not JSON, or not a review.
    """
    try:
        return _decoder.decode(body)
    # ValueError: invalid UTF-8, and numbers with thousands of digits.
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise DecodeError(f"not an AdmissionReview: {error}") from error


def in_version_of(review: Review, answer: bytes) -> bytes:
    """Return the answer in the review's version, v1 or v1beta1, as API servers require.

    Both versions have the same fields, so only the name is replaced.
    """
    if review.api_version != OLD_API_VERSION:
        return answer
    return answer.replace(API_VERSION.encode(), OLD_API_VERSION.encode(), 1)


def allow(uid: str, patches: Sequence[Operation] = (), warnings: Sequence[str] = ()) -> bytes:
    """Return the response that admits an object, changed by ``patches``."""
    if not patches:
        return _answer(_Response(uid=uid, allowed=True, warnings=tuple(warnings)))
    return _answer(
        _Response(
            uid=uid,
            allowed=True,
            patch=_encoder.encode(patches),
            patch_type="JSONPatch",
            warnings=tuple(warnings),
        )
    )


def deny(
    request: AdmissionRequest, errors: Sequence[FieldError], warnings: Sequence[str] = ()
) -> bytes:
    """Return the response that refuses a VPA and lists all of its errors.

    Source: ``apierrors.NewInvalid``, k8s.io/apimachinery/pkg/api/errors/errors.go.
    """
    kind = request.request_kind.kind if request.request_kind is not None else VPA_KIND
    sentences = [brief(f"{error.field}: {error.message}") for error in errors]
    problems = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    status = _Status(
        metadata={},
        status="Failure",
        message=f"{kind}.{VPA_GROUP} {quoted(request.name)} is invalid: {problems}",
        reason="Invalid",
        details=_DenialDetails(
            name=request.name,
            group=VPA_GROUP,
            kind=kind,
            causes=tuple(
                _DenialCause(
                    reason=error.type, message=brief(error.message), field=brief(error.field)
                )
                for error in errors
            ),
        ),
        code=422,
    )
    return _answer(
        _Response(uid=request.uid, allowed=False, status=status, warnings=tuple(warnings))
    )


def _answer(response: _Response) -> bytes:
    return _encoder.encode(_ReviewResponse(kind=KIND, api_version=API_VERSION, response=response))
