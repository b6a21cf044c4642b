"""The decision about a new pod: its VPA is found, and says what to patch.

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

# No node runs so many. A body may hold 200,000, and their patch would hold up all other pods.
_MOST_CONTAINERS = 1000

_decoder: msgspec.json.Decoder[Pod] = msgspec.json.Decoder(Pod)
_decoder_with_sidecars: msgspec.json.Decoder[Pod] = msgspec.json.Decoder(PodWithSidecars)


class MatchReason(enum.StrEnum):
    """Why a pod has a VPA, or has none."""

    MATCHED = "matched"
    NO_CONTROLLER = "no_controller"  # no owner reference of the pod says ``controller: true``
    NO_VPA_IN_NAMESPACE = "no_vpa_in_namespace"  # none with a target, at least
    NO_SCALABLE_OWNER = "no_scalable_owner"  # neither well-known nor with a scale subresource
    NOT_TARGETED = "not_targeted"  # no VPA targets the topmost owner
    NONE_APPLIES = "none_applies"  # those that do are Off, or don't select the pod


@dataclass(frozen=True, slots=True)
class TargetingVpa:
    """A VPA of the pod's topmost owner; ``problem`` says why its selector isn't known."""

    vpa: VerticalPodAutoscaler
    selector: Selector | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class VpaMatch:
    """The VPA of a new pod; without one, whether a VPA of mode Off was passed over.

    The rest explains it to people.
    """

    vpa: VerticalPodAutoscaler | None = None
    off: bool = False
    reason: MatchReason = field(default=MatchReason.MATCHED, compare=False)
    topmost: Controller | None = field(default=None, compare=False)
    candidates: tuple[TargetingVpa, ...] = field(default=(), compare=False)


class LookupFailedError(Exception):
    """The pod's owners could not be found; the pod is treated as one without a VPA."""


class Cluster(Protocol):
    """What a review needs to know of the cluster."""

    @property
    def synced(self) -> bool:
        """Return whether everything has been listed once."""
        ...

    def match(self, pod: ObjectMeta) -> Coroutine[Any, Any, VpaMatch]:
        """Find the pod's VPA; raises LookupFailedError."""
        ...

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeSpec]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPolicy:
    """What the operator chose about reviews."""

    features: FeatureGates
    most_boost: Quantity = ZERO  # most CPU of a boosted request; zero: no bound
    pod_level: PodLevelMode = PodLevelMode.KEEP
    lookup_timeout: float = 2.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVerdict:
    """The decision about a new pod; without ``patches`` it passes unchanged.

    ``problem`` is a sentence for the log where something was wrong, and ``error`` the details.
    ``policy`` is set if the pod has a VPA.
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
    """Decide about the pod of a request; ``cache`` belongs to the same policy.

    Finding the VPA may take ``lookup_timeout`` seconds.

    What people, other programs or the API server did wrong is part of the verdict; whatever is
    raised is a bug of ours.
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
    except DecodeError as error:  # what people or other programs wrote, no bug of ours
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
    """Older API servers leave the namespace out of a new pod; the request's is always right."""
    if meta.namespace == namespace:
        return meta
    return msgspec.structs.replace(meta, namespace=namespace)
