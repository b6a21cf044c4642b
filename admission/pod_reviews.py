"""The review of a new pod: find its VPA and compute the patch.

Source: admission.md 3 and 4.
"""

import asyncio
import enum
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from admission.metrics import ReviewOutcome
from admission.patch_cache import PatchCache
from admission.review import AdmissionRequest
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod, PodWithSidecars
from common.api.meta import ObjectMeta
from common.errors import DecodeError
from common.features import FeatureGates
from common.labels import Selector
from common.patches import Operation
from common.quantity import ZERO, Quantity
from common.recommendation.pod_level import PodLevelMode, Unfit
from common.recommendation.scaled_containers import scaled_specs
from common.target.owners import Controller

# More than any node runs. A body can hold 200,000; computing their patch would delay other reviews.
_MOST_CONTAINERS = 1000

_decoder: msgspec.json.Decoder[Pod] = msgspec.json.Decoder(Pod)
_decoder_with_sidecars: msgspec.json.Decoder[Pod] = msgspec.json.Decoder(PodWithSidecars)


class MatchReason(enum.StrEnum):
    """The result of looking for a pod's VPA."""

    MATCHED = "matched"
    NO_CONTROLLER = "no_controller"  # no owner reference of the pod has ``controller: true``
    NO_VPA_IN_NAMESPACE = "no_vpa_in_namespace"  # no VPA of the namespace has a target
    NO_SCALABLE_OWNER = "no_scalable_owner"  # neither well-known nor with a scale subresource
    NOT_TARGETED = "not_targeted"  # no VPA targets the topmost owner
    NONE_APPLIES = "none_applies"  # the targeting VPAs are Off, or don't select the pod


@dataclass(frozen=True, slots=True)
class TargetingVpa:
    """A VPA that targets the pod's topmost owner; ``problem`` is why it has no selector."""

    vpa: VerticalPodAutoscaler
    selector: Selector | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class VpaMatch:
    """The VPA of a new pod, if any, and the data that explains the match."""

    vpa: VerticalPodAutoscaler | None = None
    off: bool = False  # there is no VPA, and a targeting one of mode Off was skipped
    reason: MatchReason = field(default=MatchReason.MATCHED, compare=False)
    topmost: Controller | None = field(default=None, compare=False)
    candidates: tuple[TargetingVpa, ...] = field(default=(), compare=False)


class LookupFailedError(Exception):
    """The pod's owners could not be looked up; the pod passes unchanged."""


class Cluster(Protocol):
    """The part of the cluster's state that a review depends on."""

    @property
    def synced(self) -> bool:
        """Return whether all objects have been listed once."""
        ...

    def match(self, pod: ObjectMeta) -> Coroutine[Any, Any, VpaMatch]:
        """Return the pod's VPA; raise LookupFailedError."""
        ...

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeSpec]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPolicy:
    """The operator's settings for reviews."""

    features: FeatureGates
    most_boost: Quantity = ZERO  # most CPU of a boosted request; zero: no bound
    pod_level: PodLevelMode = PodLevelMode.KEEP
    lookup_timeout: float = 2.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVerdict:
    """The decision about a new pod; without ``patches`` it passes unchanged.

    ``problem`` is the log message of a failure, and ``error`` the details. ``policy`` is set if
    the pod has a VPA.
    """

    outcome: ReviewOutcome
    patches: tuple[Operation, ...] = ()
    pod: Pod | None = None
    match: VpaMatch | None = None
    limit_ranges: Sequence[LimitRangeSpec] = ()
    policy: ReviewPolicy | None = None
    problem: str = ""
    error: str = ""
    unfit: Unfit | None = None

    @property
    def vpa_name(self) -> str:
        """Return the VPA's name; empty without one."""
        vpa = self.match.vpa if self.match is not None else None
        return "" if vpa is None else vpa.metadata.name


async def judge(
    request: AdmissionRequest,
    cluster: Cluster,
    policy: ReviewPolicy,
    *,
    cache: PatchCache,
    lookup_timeout: float,
) -> PodVerdict:
    """Decide about the pod of a request; ``cache`` has to use the same policy.

    Finding the VPA may take ``lookup_timeout`` seconds. Bad input and errors of the API server are
    part of the verdict. An exception is a bug.
    """
    if not cluster.synced:
        return PodVerdict(outcome=ReviewOutcome.NOT_SYNCED)
    if request.resource.version != "v1":
        return PodVerdict(outcome=ReviewOutcome.BAD_OBJECT)
    decoder = _decoder_with_sidecars if policy.features.native_sidecar else _decoder
    try:
        pod = decoder.decode(request.object)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return PodVerdict(
            outcome=ReviewOutcome.BAD_OBJECT, problem="undecodable pod", error=str(error)
        )
    if (count := len(scaled_specs(pod))) > _MOST_CONTAINERS:
        problem = "pod with too many containers"
        return PodVerdict(
            outcome=ReviewOutcome.BAD_OBJECT, pod=pod, problem=problem, error=str(count)
        )
    meta = _in_namespace(pod.metadata, request.namespace)
    try:
        async with asyncio.timeout(lookup_timeout):
            match = await cluster.match(meta)
    except TimeoutError:
        return PodVerdict(outcome=ReviewOutcome.TIMED_OUT, pod=pod, problem="no VPA found in time")
    except LookupFailedError as error:
        return PodVerdict(
            outcome=ReviewOutcome.LOOKUP_FAILED,
            pod=pod,
            problem="owner look-up failed",
            error=str(error),
        )
    if match.vpa is None:
        return PodVerdict(
            outcome=ReviewOutcome.OFF if match.off else ReviewOutcome.NO_VPA, pod=pod, match=match
        )
    limit_ranges = cluster.limit_ranges(meta.namespace)
    try:
        patch = cache.admit(pod, match.vpa, limit_ranges)
    except DecodeError as error:  # a bad number in the pod, VPA or LimitRange
        return PodVerdict(
            outcome=ReviewOutcome.ERROR,
            pod=pod,
            match=match,
            limit_ranges=limit_ranges,
            policy=policy,
            problem="pod passes unchanged",
            error=str(error),
        )
    return PodVerdict(
        outcome=ReviewOutcome.PATCHED,
        patches=patch.operations,
        pod=pod,
        match=match,
        limit_ranges=limit_ranges,
        policy=policy,
        problem="" if patch.unfit is None else "recommendation not applied",
        error="" if patch.unfit is None else f"{patch.unfit.reason}: {patch.unfit.meaning}",
        unfit=patch.unfit,
    )


def _in_namespace(meta: ObjectMeta, namespace: str) -> ObjectMeta:
    """Set the request's namespace, which older API servers omit in a new pod's metadata."""
    if meta.namespace == namespace:
        return meta
    return msgspec.structs.replace(meta, namespace=namespace)
