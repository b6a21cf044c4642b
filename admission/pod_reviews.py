"""What becomes of a new pod: its VPA is found, and says what to patch.

Source: admission.md 3 and 4.
"""

import enum
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from admission.deadline import within
from admission.metrics import Outcome
from admission.remembered import PatchMemory
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


class Reason(enum.StrEnum):
    """Why a pod has a VPA, or has none."""

    MATCHED = "matched"
    NO_CONTROLLER = "no_controller"  # no owner reference of the pod says ``controller: true``
    NO_VPA_IN_NAMESPACE = "no_vpa_in_namespace"  # none with a target, at least
    NO_SCALABLE_OWNER = "no_scalable_owner"  # neither well-known nor with a scale subresource
    NOT_TARGETED = "not_targeted"  # no VPA targets the topmost owner
    NONE_APPLIES = "none_applies"  # those that do are Off, or don't select the pod


@dataclass(frozen=True, slots=True)
class Candidate:
    """A VPA of the pod's topmost owner; ``problem`` says why its selector isn't known."""

    vpa: VerticalPodAutoscaler
    selector: Selector | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """The VPA of a new pod; without one, whether a VPA of mode Off was passed over.

    The rest tells how it came to that, for people.
    """

    vpa: VerticalPodAutoscaler | None = None
    off: bool = False
    reason: Reason = field(default=Reason.MATCHED, compare=False)
    topmost: Controller | None = field(default=None, compare=False)
    candidates: tuple[Candidate, ...] = field(default=(), compare=False)


class LookupFailedError(Exception):
    """The pod's owners could not be found out; such a pod has no VPA."""


class Cluster(Protocol):
    """What a review needs to know of the cluster."""

    @property
    def synced(self) -> bool:
        """Whether everything has been listed once."""
        ...

    def match(self, pod: ObjectMeta) -> Coroutine[Any, Any, Match]:
        """Find the pod's VPA; raises LookupFailedError."""
        ...

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeSpec]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the operator chose about reviews."""

    features: FeatureGates
    most_boost: Quantity = ZERO  # most CPU of a boosted request; zero: no bound
    pod_level: PodLevelMode = PodLevelMode.KEEP
    lookup_deadline: float = 2.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a new pod; without ``patches`` it passes unchanged.

    ``problem`` is a sentence for the log where something was wrong, and ``error`` the details.
    ``policy`` is there where the pod has a VPA.
    """

    outcome: Outcome
    patches: tuple[Operation, ...] = ()
    pod: Pod | None = None
    match: Match | None = None
    limit_ranges: Sequence[LimitRangeSpec] = ()
    policy: Policy | None = None
    problem: str = ""
    error: str = ""
    unfit: Unfit | None = None

    @property
    def vpa_name(self) -> str:
        """The VPA's name; empty without one."""
        vpa = self.match.vpa if self.match is not None else None
        return "" if vpa is None else vpa.metadata.name


async def judge(
    request: AdmissionRequest,
    cluster: Cluster,
    policy: Policy,
    *,
    memory: PatchMemory,
) -> Verdict:
    """Decide about the pod of a request; ``memory`` belongs to the same policy.

    What people, other programs or the API server did wrong is part of the verdict; whatever is
    raised is a bug of ours.
    """
    if not cluster.synced:
        return Verdict(outcome=Outcome.NOT_SYNCED)
    if request.resource.version != "v1":
        return Verdict(outcome=Outcome.BAD_OBJECT)
    decoder = _decoder_with_sidecars if policy.features.native_sidecar else _decoder
    try:
        pod = decoder.decode(request.object)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return Verdict(outcome=Outcome.BAD_OBJECT, problem="undecodable pod", error=str(error))
    if (count := len(scaled_specs(pod))) > _MOST_CONTAINERS:
        problem = "pod with too many containers"
        return Verdict(outcome=Outcome.BAD_OBJECT, pod=pod, problem=problem, error=str(count))
    meta = _in_namespace(pod.metadata, request.namespace)
    try:
        match = await within(policy.lookup_deadline, cluster.match(meta))
    except TimeoutError:
        return Verdict(outcome=Outcome.TIMED_OUT, pod=pod, problem="no VPA found in time")
    except LookupFailedError as error:
        return Verdict(
            outcome=Outcome.LOOKUP_FAILED,
            pod=pod,
            problem="owner look-up failed",
            error=str(error),
        )
    if match.vpa is None:
        return Verdict(outcome=Outcome.OFF if match.off else Outcome.NO_VPA, pod=pod, match=match)
    limit_ranges = cluster.limit_ranges(meta.namespace)
    try:
        patch = memory.admit(pod, match.vpa, limit_ranges)
    except DecodeError as error:  # what people or other programs wrote, no bug of ours
        return Verdict(
            outcome=Outcome.ERROR,
            pod=pod,
            match=match,
            limit_ranges=limit_ranges,
            policy=policy,
            problem="pod passes unchanged",
            error=str(error),
        )
    return Verdict(
        outcome=Outcome.PATCHED,
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
