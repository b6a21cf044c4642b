"""The AdmissionReview on the wire: what the API server asks, and the bytes that we answer.

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
    """What a review is about; also the metric label."""

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
    """``request``; the objects stay undecoded until it is known what they are."""

    uid: str = ""
    resource: GroupVersionResource = GroupVersionResource()
    request_kind: GroupVersionKind | None = None
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT
    dry_run: Any = None  # true, false or missing; anything else is as good as missing

    @property
    def subject(self) -> ReviewSubject:
        """Decided by group and resource alone; the registered rules restrict the rest."""
        return _SUBJECTS.get((self.resource.group, self.resource.resource), ReviewSubject.UNKNOWN)

    @property
    def size(self) -> int:
        """Bytes of the object and of its old state."""
        return memoryview(self.object).nbytes + memoryview(self.old_object).nbytes

    def patched(self, patches: Sequence[Operation]) -> Any:
        """Return the object after a patch."""
        found = msgspec.json.decode(self.object)
        return jsonpatch.JsonPatch(msgspec.to_builtins(patches)).apply(found, in_place=True)


_SUBJECTS = {
    ("", "pods"): ReviewSubject.POD,
    (VPA_GROUP, "verticalpodautoscalers"): ReviewSubject.VPA,
}


class Review(Wire, frozen=True, kw_only=True):
    """What the API server asks, and in which version of the wire."""

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
    """Read a review; the objects that it is about stay as they are.

    Raises:
        DecodeError: the body is not JSON, or not a review.
    """
    try:
        return _decoder.decode(body)
    # ValueError: bytes that are no UTF-8, and numbers of thousands of digits.
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise DecodeError(f"not an AdmissionReview: {error}") from error


def in_version_of(review: Review, answer: bytes) -> bytes:
    """Return the answer in the version of the review, as API servers demand: v1 or v1beta1.

    The fields of both versions are the same, so the name is all that differs.
    """
    if review.api_version != OLD_API_VERSION:
        return answer
    return answer.replace(API_VERSION.encode(), OLD_API_VERSION.encode(), 1)


def allow(uid: str, patches: Sequence[Operation] = (), warnings: Sequence[str] = ()) -> bytes:
    """Let the object pass, changed by ``patches`` if there are any."""
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
    """Refuse a VPA with every rule that it breaks, in sentences that can be read.

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
