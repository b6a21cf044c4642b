"""Conversion of API objects to the model's types."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

from common.api.autoscaling import ContainerPolicy, UpdateMode, VerticalPodAutoscaler
from common.api.base import QuantityJson
from common.api.core import NO_RESOURCES, Pod, ResourceRequirements, is_sidecar
from common.api.workloads import ResourcesTemplate
from common.identity_cache import IdentityCache
from common.quantity import ZERO, Quantity, QuantityError
from common.recommendation.scaled_containers import scaled_sidecars, scaled_specs, scaled_statuses
from common.resources import CPU, MEMORY, amount, parse_quantities
from common.target.owners import Controller
from recommender.model.autoscalers import ContainerRule
from recommender.model.keys import NO_REQUESTS, PodKey, Requests, VpaKey
from recommender.model.pods import PodFacts, RequestSource

FINISHED = ("Succeeded", "Failed")
"""The phases of pods that have ended."""
_OFF = "Off"
_MODES = frozenset({"", *(mode.value for mode in UpdateMode)})
_UNKNOWN = "Unknown"
_DEFAULT = "default"  # the recommender of VPAs that name none
_CONTROLLABLE = (CPU, MEMORY)
_LONGEST_SECONDS = 10**9  # of a memory window: thirty years

_requests = IdentityCache[tuple[Requests, ...]](1 << 16)  # replicas share specs and statuses


def pod_key(pod: Pod) -> PodKey:
    """Return the model's key of a pod."""
    return PodKey(pod.metadata.namespace, pod.metadata.name)


def vpa_key(vpa: VerticalPodAutoscaler) -> VpaKey:
    """Return the model's key of a VPA."""
    return VpaKey(vpa.metadata.namespace, vpa.metadata.name)


def written_mode(vpa: VerticalPodAutoscaler) -> str:
    """Return the update mode as a metric label; empty if the VPA has none.

    An invalid mode is ``Unknown``, because otherwise each text would create new series (X119).
    """
    policy = vpa.spec.update_policy
    mode = (policy.update_mode if policy is not None else None) or ""
    return mode if mode in _MODES else _UNKNOWN


def is_ours(vpa: VerticalPodAutoscaler, *, recommender: str, ignored: Collection[str]) -> bool:
    """Return True if this recommender handles a VPA (recommender.md 6.4).

    The recommender ``default`` also handles VPAs that name none.
    """
    if vpa.metadata.namespace in ignored:
        return False
    named = {selector.name for selector in vpa.spec.recommenders or ()}
    return recommender in named if named else recommender == _DEFAULT


def target_name(vpa: VerticalPodAutoscaler) -> str:
    """Return the kind, group and name of a VPA's target; empty without a target.

    An example is ``Rollout.argoproj.io/web``. Built-in workloads have no group
    (``Deployment/web``), because a ``targetRef`` may omit it. The version doesn't matter.
    """
    target = vpa.spec.target_ref
    if target is None:
        return ""
    group = target.api_version.rpartition("/")[0]
    controller = Controller(vpa.metadata.namespace, target.kind, target.name, target.api_version)
    is_named = not controller.is_well_known and group
    return f"{target.kind}.{group}/{target.name}" if is_named else f"{target.kind}/{target.name}"


def pod_facts(pod: Pod) -> PodFacts:
    """Return the facts about a pod; plain init containers aren't tracked."""
    return PodFacts(
        key=pod_key(pod),
        uid=pod.metadata.uid,
        labels=pod.metadata.labels or {},
        active=pod.status.phase not in FINISHED,
        containers=tuple(container.name for container in scaled_specs(pod)),
        sidecars=tuple(each.name for each in pod.spec.init_containers or () if is_sidecar(each)),
        requests=_requests.get(_resource_parts(pod), lambda: _present_requests(pod)),
    )


def _resource_parts(pod: Pod) -> tuple[object, ...]:
    """Return the parts of a pod that contain its requests."""
    return pod.spec, pod.status.container_statuses, pod.status.init_container_statuses


def _present_requests(pod: Pod) -> tuple[Requests, ...]:
    """Return the requests of the tracked containers, as the kubelet reports them, else the spec."""
    reported = {
        status.name: status.resources
        for status in scaled_statuses(pod)
        if status.resources is not None
    }
    return tuple(
        _amounts(reported.get(container.name, container.resources))
        for container in scaled_specs(pod)
    )


def template_requests(template: ResourcesTemplate) -> dict[str, Requests]:
    """Return the requests in a pod template by container name.

    A limit without a request counts as the request, as in the API server.
    """
    spec = template.spec
    return {
        container.name: _amounts(container.resources)
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
    }


def _amounts(resources: ResourceRequirements | None) -> Requests:
    """Return the requests in a resource list; none if it can't be read."""
    given = resources or NO_RESOURCES
    try:
        found = parse_quantities(given.limits) | parse_quantities(given.requests)
        cpu, memory = found.get(CPU, ZERO).milli, found.get(MEMORY, ZERO).value
    except (QuantityError, OverflowError):
        return NO_REQUESTS
    return Requests(amount(cpu), amount(memory))


def request_sources(pod: Pod) -> Mapping[RequestSource, int]:
    """Count the containers of a pod by the source of their requests: status or else spec."""
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
    """Return the rules in a VPA's container policies, in their order.

    Raises:
        QuantityError: a bound or an override is not a quantity.
    """
    policy = vpa.spec.resource_policy
    if policy is None or not policy.container_policies:
        return ()
    for one in policy.container_policies:  # fail early for invalid bounds
        parse_quantities(one.min_allowed)
        parse_quantities(one.max_allowed)
    return tuple(
        container_rule(one, per_vpa_config=per_vpa_config) for one in policy.container_policies
    )


def container_rule(policy: ContainerPolicy, *, per_vpa_config: bool) -> ContainerRule:
    """Return the rule in a container policy.

    Without the gate PerVPAConfig its four overrides have no effect. Unknown controlled resources
    are dropped (recommender.md 5.3).

    Raises:
        QuantityError: an override is not a quantity.
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
    return replace(
        rule,
        interval=None if seconds is None else timedelta(seconds=min(seconds, _LONGEST_SECONDS)),
        interval_count=_positive(policy.memory_aggregation_interval_count),
        oom_bump_up_ratio=_number(policy.oom_bump_up_ratio),
        oom_min_bump_up=_number(policy.oom_min_bump_up),
    )


def _positive(number: int | None) -> int | None:
    """Return None for numbers that the schema refuses; they may be older than the schema."""
    return number if number is not None and number > 0 else None


def _number(quantity: QuantityJson) -> float | None:
    return None if quantity is None else Quantity.from_json(quantity).milli / 1000
