"""What ``kubectl vpa doctor`` knows about an installation, and what a check returns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from common.api.coordination import Lease
from common.api.core import LimitRangeSpec, ResourceQuota
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.doctor import Finding, Severity
from kubectl_vpa.results.status import VpaResult

RECOMMENDER, UPDATER, ADMISSION = "vpa-recommender", "vpa-updater", "vpa-admission-controller"
COMPONENTS = (RECOMMENDER, UPDATER, ADMISSION)
"""Values of the label ``app``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPod:
    """A pod of a component."""

    component: str
    namespace: str
    name: str
    account: str
    image: str
    ready: bool
    arguments: tuple[str, ...] = ()
    port: int = 0  # of its ops address

    @property
    def flags(self) -> Mapping[str, str]:
        """Return the flags on the command line, without their dashes."""
        parted = (each.lstrip("-").partition("=") for each in self.arguments)
        return {name: value for name, _, value in parted}


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A mutating webhook for pods of a VPA, and what it calls."""

    configuration: str
    url: str = ""
    namespace: str = ""  # of its Service
    service: str = ""
    ca_bundle: bytes = b""  # PEM
    expires: datetime | None = None  # the end of the last CA; None: there is no valid one
    service_exists: bool | None = None  # None: unknown, or it has a URL; as the next one
    ready_endpoints: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """A pod that was created in a dry run."""

    vpa: str  # namespace/name
    patched: bool = False
    refused: str = ""  # the API server's answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A serving certificate in a Secret."""

    secret: str  # namespace/name
    expires: datetime
    untrusted_by: str = ""  # a webhook configuration whose CA didn't sign it


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that was read; None stands for what could not be read."""

    now: datetime
    minor: int | None = None  # of the cluster's version 1.x
    served: Sequence[str] | None = None  # resources of autoscaling.k8s.io/v1; empty: not served
    resize_served: bool | None = None
    metrics: Sequence[datetime] | None = None  # times of the usage of pods
    metrics_error: str = ""
    components: Sequence[ComponentPod] | None = None
    leases: Mapping[tuple[str, str], Lease] | None = None  # by namespace and name
    denied: Mapping[str, Sequence[str]] | None = None  # missing permissions by account
    webhooks: Sequence[Webhook] | None = None
    dry_run: DryRun | None = None
    certificates: Sequence[Certificate] = ()
    vpas: Sequence[VpaFacts] = ()
    results: Sequence[VpaResult] = ()  # their statuses
    hpas_seen: bool = False
    bare_pods: Sequence[tuple[str, str]] | None = None  # without a controller, as namespace, name
    limit_ranges: Mapping[str, Sequence[LimitRangeSpec]] = field(default_factory=dict)
    quotas: Sequence[ResourceQuota] | None = None
    checkpoints: Sequence[tuple[str, str, str]] | None = None  # namespace, name, VPA


Check: TypeAlias = Callable[[Facts], Iterator[Finding]]
"""A check: a pure function over the facts."""


def error(check: str, about: str, message: str, remedy: str) -> Finding:
    """Return that something doesn't work."""
    return Finding(
        check=check, severity=Severity.ERROR, about=about, message=message, remedy=remedy
    )


def warning(check: str, about: str, message: str, remedy: str) -> Finding:
    """Return that something works less well than it could, or soon will not."""
    return Finding(
        check=check, severity=Severity.WARNING, about=about, message=message, remedy=remedy
    )


def ok(check: str, message: str) -> Finding:
    """Return that a check found nothing wrong."""
    return Finding(check=check, severity=Severity.OK, about="", message=message, remedy="")


def skipped(check: str, message: str) -> Finding:
    """Return that a check could not be made, with the reason."""
    return Finding(check=check, severity=Severity.SKIPPED, about="", message=message, remedy="")
