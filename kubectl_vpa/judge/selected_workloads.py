"""The choice of the workloads that ``kubectl vpa create`` creates VPAs for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from common.labels import NOTHING, Selector
from common.target.owners import Controller
from common.vpa_creation.new_vpas import Candidate, NewVpa, SkippedWorkload, SkipReason
from common.vpa_creation.policy import ENABLE, EXCLUDED
from kubectl_vpa.judge.findings import COMPONENTS

SYSTEM_NAMESPACES = frozenset({"kube-node-lease", "kube-public", "kube-system"})
"""The namespaces of Kubernetes itself."""

_PROJECT = "vertical-pod-autoscaler"  # as charts and manifests label the components


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWorkload:
    """A workload of the cluster."""

    workload: Controller
    owner: Controller | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """The workloads that a person leaves out.

    A pattern is a name such as ``web-*``, or a kind and a name such as ``Deployment/web-*``. A
    kind is written in any case.
    """

    patterns: Sequence[str] = ()
    selector: Selector = NOTHING

    def covers(self, listed: ListedWorkload) -> bool:
        """Return True if the workload is left out."""
        workload = listed.workload
        named = f"{workload.kind.lower()}/{workload.name}"
        return self.selector.matches(listed.labels) or any(
            fnmatchcase(named if "/" in each else workload.name, _lower_kind(each))
            for each in self.patterns
        )


def namespaces_left_out(found: Iterable[ListedWorkload]) -> frozenset[str]:
    """Return the namespaces in which nothing is created unless a person names one of them.

    These are the namespaces of Kubernetes, and those that VPA components run in: a component that
    its own recommendation restarts can't help others meanwhile.
    """
    return SYSTEM_NAMESPACES | {
        each.workload.namespace
        for each in found
        if each.labels.get("app") in COMPONENTS
        or each.labels.get("app.kubernetes.io/name") == _PROJECT
    }


def candidates(found: Iterable[ListedWorkload], exclusion: Exclusion) -> Iterator[Candidate]:
    """Yield what may get a VPA; workloads that the person left out are not among it."""
    for each in found:
        if not exclusion.covers(each):
            yield Candidate(
                workload=each.workload,
                owner=each.owner,
                excluded=each.labels.get(ENABLE) == EXCLUDED,
            )


def skip_message(skipped: SkippedWorkload) -> str:
    """Return why a workload gets no VPA; empty for one whose owner gets the VPA.

    The message is the same for all workloads of one custom resource: it may own many ReplicaSets.
    """
    match skipped.reason:
        case SkipReason.OWNED:
            return ""
        case SkipReason.HAS_VPA:
            why = f"VPA {skipped.other} targets it already"
        case SkipReason.OWNED_BY_CUSTOM_KIND:
            place = f"{skipped.other} in {skipped.workload.namespace}"
            return f"workloads of {place}: create a VPA by hand"
        case SkipReason.EXCLUDED:
            why = f"it has the label {ENABLE}={EXCLUDED}"
        case SkipReason.NO_FREE_NAME:
            why = "other VPAs have all names for it; choose another --name"
    return f"{named(skipped.workload)}: {why}"


def conflict_message(new: NewVpa) -> str:
    """Return what the VPA does beside an HPA of its workload; empty without one."""
    conflict = new.conflict
    if conflict is None:
        return ""
    shared = " and ".join(conflict.resources)
    if conflict.was_off:
        outcome = f"mode Off changes nothing; leave {shared} out before you choose another mode"
    elif conflict.left:
        outcome = f"the VPA controls {' and '.join(conflict.left)} only"
    else:
        outcome = "the VPA has mode Off, because it has no other resource"
    return f"{named(new.workload)}: HPA {conflict.hpa} scales on the use of {shared}: {outcome}"


def named(workload: Controller) -> str:
    """Return kind, namespace and name as messages show them."""
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def _lower_kind(pattern: str) -> str:
    kind, slash, name = pattern.rpartition("/")
    return f"{kind.lower()}{slash}{name}"
