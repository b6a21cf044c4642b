"""The answers of the read API of the admission controller."""

from typing import Any

from common.api.base import Time, Wire
from common.read_model.page import HistoryEntry, ListMetadata, ReadMetadata

ADMISSIONS_PATH = "/api/v1/admissions"
REGISTRATION_PATH = "/api/v1/registration"


class PastAdmission(HistoryEntry, frozen=True, kw_only=True):
    """A review of a new pod that has a VPA, or whose VPA could not be found out.

    ``pod`` is the name, or the ``generateName`` followed by ``%``. ``vpa`` is empty if no VPA was
    found. ``outcome`` is the label of ``vpa_admission_controller_reviews_total``; ``problem`` says
    why the pod is not patched, or is null. ``changes`` is text: ``app cpu 100m -> 250m``.
    """

    pod: str
    outcome: str
    changes: str
    problem: str | None
    dry_run: bool
    seconds: float


class AdmissionList(Wire, frozen=True, kw_only=True):
    """The answer of ``/api/v1/admissions``, newest first; the process keeps the last 1,000."""

    metadata: ListMetadata
    items: tuple[PastAdmission, ...]


class CertificateInfo(Wire, frozen=True, kw_only=True):
    """A certificate, without its key; ``fingerprint`` is the SHA-256 of its DER form in hex."""

    subject: str
    issuer: str
    hosts: tuple[str, ...]
    not_before: Time
    not_after: Time
    fingerprint: str


class SelfCheckInfo(Wire, frozen=True, kw_only=True):
    """The self-check: whether the last one passed, and whether the last few ones did.

    ``error`` is the failure of the last one, or null.
    """

    passed: bool
    steady: bool
    error: str | None


class RegistrationState(Wire, frozen=True, kw_only=True):
    """The answer of ``/api/v1/registration``.

    ``registers`` is False if another program registers the webhook; then only certificates and
    self-check are known. ``registered`` says whether the stored configuration was right at the
    last check, ``differences`` which of its fields were not, and ``exemptions`` in which fields it
    exempts more objects than configured. ``configuration`` is the wanted one.
    """

    metadata: ReadMetadata
    registers: bool
    registered: bool
    configuration: dict[str, Any] | None
    differences: tuple[str, ...]
    exemptions: tuple[str, ...]
    certificate: CertificateInfo | None
    authorities: tuple[CertificateInfo, ...]
    self_check: SelfCheckInfo
