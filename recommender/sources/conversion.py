"""What objects of the API server say, in the model's words."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta

from common.api.autoscaling import ContainerPolicy, UpdateMode, VerticalPodAutoscaler
from common.api.base import QuantityJson
from common.api.core import Pod, is_sidecar
from common.quantity import Quantity
from common.recommendation.scaled_containers import scaled_sidecars, scaled_specs, scaled_statuses
from common.resources import CPU, MEMORY, parse_quantities
from common.target.owners import Controller
from recommender.model.autoscalers import ContainerRule
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts, RequestSource

_FINISHED = ("Succeeded", "Failed")
_OFF = "Off"
_MODES = frozenset({"", *(mode.value for mode in UpdateMode)})
_UNKNOWN = "Unknown"
_DEFAULT = "default"  # the recommender's name where nothing else is said
_CONTROLLABLE = (CPU, MEMORY)
_LONGEST_SECONDS = 10**9  # of a memory window: thirty years


def pod_key(pod: Pod) -> PodKey:
    """Return what the model calls a pod."""
    return PodKey(pod.metadata.namespace, pod.metadata.name)


def vpa_key(vpa: VerticalPodAutoscaler) -> VpaKey:
    """Return what the model calls a VPA."""
    return VpaKey(vpa.metadata.namespace, vpa.metadata.name)


def written_mode(vpa: VerticalPodAutoscaler) -> str:
    """Return the update mode as a metric label: as it is written, empty if it isn't.

    A text that is no mode is ``Unknown``, or each text would make series of its own (X119).
    """
    policy = vpa.spec.update_policy
    mode = (policy.update_mode if policy is not None else None) or ""
    return mode if mode in _MODES else _UNKNOWN


def is_ours(vpa: VerticalPodAutoscaler, *, recommender: str, ignored: Collection[str]) -> bool:
    """Return whether this recommender answers for a VPA (recommender.md 6.4).

    One that names no recommender belongs to the one called ``default``.
    """
    if vpa.metadata.namespace in ignored:
        return False
    named = {selector.name for selector in vpa.spec.recommenders or ()}
    return recommender in named if named else recommender == _DEFAULT


def target_name(vpa: VerticalPodAutoscaler) -> str:
    """Return whom a VPA is about, by kind, group and name; empty without a target.

    As in ``Rollout.argoproj.io/web``. Workloads of Kubernetes go without their group
    (``Deployment/web``), as they may in a ``targetRef``; the version doesn't matter.
    """
    target = vpa.spec.target_ref
    if target is None:
        return ""
    group = target.api_version.rpartition("/")[0]
    controller = Controller(vpa.metadata.namespace, target.kind, target.name, target.api_version)
    is_named = not controller.is_well_known and group
    return f"{target.kind}.{group}/{target.name}" if is_named else f"{target.kind}/{target.name}"


def pod_facts(pod: Pod) -> PodFacts:
    """Return the part of a pod that concerns usage; plain init containers aren't followed."""
    return PodFacts(
        key=pod_key(pod),
        uid=pod.metadata.uid,
        labels=pod.metadata.labels or {},
        active=pod.status.phase not in _FINISHED,
        containers=tuple(container.name for container in scaled_specs(pod)),
        sidecars=tuple(each.name for each in pod.spec.init_containers or () if is_sidecar(each)),
    )


def request_sources(pod: Pod) -> Mapping[RequestSource, int]:
    """Return the requests of a pod's containers, by the kubelet's report or else the spec."""
    reported = {status.name for status in scaled_statuses(pod) if status.resources is not None}
    sources = Counter(
        RequestSource.STATUS if each.name in reported else RequestSource.SPEC
        for each in pod.spec.containers
    )
    sources.update(
        RequestSource.INIT_STATUS if each.name in reported else RequestSource.INIT_SPEC
        for each in scaled_sidecars(pod.spec)
    )
    return sources


def container_rules(
    vpa: VerticalPodAutoscaler, *, per_vpa_config: bool
) -> tuple[ContainerRule, ...]:
    """Return a VPA's container policies, in their order.

    Raises:
        QuantityError: a bound or an override is no quantity.
    """
    policy = vpa.spec.resource_policy
    if policy is None or not policy.container_policies:
        return ()
    for one in policy.container_policies:  # of bounds the unreadable ones are reported now
        parse_quantities(one.min_allowed)
        parse_quantities(one.max_allowed)
    return tuple(
        container_rule(one, per_vpa_config=per_vpa_config) for one in policy.container_policies
    )


def container_rule(policy: ContainerPolicy, *, per_vpa_config: bool) -> ContainerRule:
    """One container policy; without the gate PerVPAConfig its four overrides don't count.

    Unknown names among the controlled resources are dropped (recommender.md 5.3).

    Raises:
        QuantityError: an override is no quantity.
    """
    named = policy.controlled_resources
    controlled = (
        _CONTROLLABLE
        if named is None
        else tuple(resource for resource in _CONTROLLABLE if resource in named)
    )
    rule = ContainerRule(
        container=policy.container_name, off=policy.mode == _OFF, controlled=controlled
    )
    if not per_vpa_config:
        return rule
    seconds = _positive(policy.memory_aggregation_interval_seconds)
    return ContainerRule(
        container=rule.container,
        off=rule.off,
        controlled=rule.controlled,
        interval=None if seconds is None else timedelta(seconds=min(seconds, _LONGEST_SECONDS)),
        interval_count=_positive(policy.memory_aggregation_interval_count),
        oom_bump_up_ratio=_number(policy.oom_bump_up_ratio),
        oom_min_bump_up=_number(policy.oom_min_bump_up),
    )


def _positive(number: int | None) -> int | None:
    """None for what the schema refuses: it can only be left from before there was one."""
    return number if number is not None and number > 0 else None


def _number(quantity: QuantityJson) -> float | None:
    return None if quantity is None else Quantity.from_json(quantity).milli / 1000
