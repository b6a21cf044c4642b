"""The workloads of VPAs, as ResourceQuotas see them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod, PodSpec, is_sidecar
from common.identity_cache import IdentityCache
from common.quantity import ZERO
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.pod_amounts import Amounts, pod_amounts
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.recommendation.quota import freed_by
from common.recommendation.quota_scopes import ScopeFacts, scope_facts
from common.recommendation.scaled_containers import scaled_specs
from common.resources import RESOURCES, ResourceQuantities, parse_quantities
from common.scheduling.pod_claims import by_resource, shape_of_template
from common.scheduling.pod_sum import Numbers, PodSum
from common.target.pod_counts import PodCounts
from recommender.estimate.lowering import lowest_targets
from recommender.estimate.pod_sums import pod_sums
from recommender.estimate.post_processing import cap_stages, quantity
from recommender.estimate.quota_bounds import (
    QUOTA_SUMS,
    PodUse,
    QuotaWorkload,
    WantedTargets,
    quota_claims,
)
from recommender.estimate.quota_capping import targets_by_resource
from recommender.model.autoscalers import ContainerRule, rule_for
from recommender.publish.status import recommended_amounts
from recommender.publish.status_decision import PublishingSettings
from recommender.sources.cached_pod import CachedPod
from recommender.sources.conversion import FINISHED, written_mode
from recommender.sources.target_resolution import LoadedVpa

_uses = IdentityCache[tuple[ResourceQuantities, ScopeFacts]](1 << 16)  # replicas share parts


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPod:
    """A pod that the workload would make next, before a VPA changes it."""

    spec: PodSpec
    scaled: tuple[str, ...]  # containers that a VPA may scale
    facts: ScopeFacts


def quota_workload(
    loaded: LoadedVpa,
    pods: Iterable[CachedPod],
    counts: PodCounts | None,
    *,
    rules: tuple[ContainerRule, ...],
    settings: PublishingSettings,
    scales_sidecars: bool = False,
) -> QuotaWorkload | None:
    """Return the workload of a VPA with its present pods.

    It is None if neither a pod nor a template shows its containers. Before the first
    recommendation, the present requests count as targets. ``counts`` are those of its controller;
    without them the present pods count. A workload without pods, such as one that is scaled to
    zero, counts as one pod and doesn't compete with those that have pods.

    Raises:
        QuantityError: an amount of a pod, the template or the policy is no quantity.
    """
    live = [each for each in pods if each.status.phase not in FINISHED]
    number = max(_counted(live), 0 if counts is None else counts.most)
    newest = _most_frequent(live) or _of_template(loaded, scales_sidecars=scales_sidecars)
    if newest is None:
        return None
    vpa, amounts = loaded.vpa, pod_amounts(newest.spec)
    scaled = {
        resource: tuple(
            name for name in newest.scaled if _controls(rule_for(rules, name), resource)
        )
        for resource in RESOURCES
    }
    present = {each.name: each for each in amounts.all_containers}
    uncapped = _uncapped(vpa, scaled, present)
    policy, most = vpa.spec.resource_policy, settings.publication.max_allowed
    stages = cap_stages(uncapped, policy, most)
    names = tuple(each.name for each in uncapped)
    facts = replace(newest.facts, is_best_effort=False) if names else newest.facts
    sums = pod_sums(
        amounts,
        scaled,
        overhead=parse_quantities(newest.spec.overhead),
        fixed_limits=frozenset(filter(lambda name: _keeps_limits(vpa, name), names)),
        template=_template_amounts(loaded),
    )
    wanted = WantedTargets(
        uncapped=targets_by_resource(uncapped),
        targets=targets_by_resource(stages[-1].amounts),
        minimums=by_resource(lowest_targets(stages, names, settings.estimation)),
    )
    changes_pods = written_mode(vpa) != UpdateMode.OFF and not loaded.controlled_by
    published = (
        targets_by_resource(recommended_amounts(vpa.status).values()) if changes_pods else {}
    )
    pending = PodUse(  # which isn't cached
        count=0 if counts is None else _uncached(counts, live),
        used=_new_pod_uses(sums, published),
        facts=facts,
    )
    return QuotaWorkload(
        pods=max(1, number),
        uses=(*_present_uses(live), pending),
        facts=facts,
        sums=sums,
        claims=quota_claims(sums, wanted, max(1, number)),
        published={
            name: number * pod.of(published.get(name.rpartition(".")[2], {}))
            for name, pod in sums.items()
        },
        competes=changes_pods and number > 0,
    )


def _counted(pods: Iterable[CachedPod]) -> int:
    """Return the number of pods that are not being deleted."""
    return sum(each.metadata.deletion_timestamp is None for each in pods)


def _uncached(counts: PodCounts, live: Sequence[CachedPod]) -> int:
    """Return the number of pods that exist and aren't cached, because they are Pending."""
    cached = len(live) if counts.counts_deleted else _counted(live)
    return max(0, counts.existing - cached)


def _most_frequent(pods: Sequence[CachedPod]) -> NewPod | None:
    """Return the pod that most replicas are like; of several the one that was listed last."""
    if not pods:
        return None
    counted = Counter(map(_identity, pods))
    found = max(reversed(pods), key=lambda each: counted[_identity(each)])
    names = tuple(each.name for each in scaled_specs(found))
    return NewPod(spec=found.whole_spec, scaled=names, facts=_use(found)[1])


def _identity(pod: CachedPod) -> tuple[int, int]:
    return id(pod.spec), id(pod.whole_spec)


def _of_template(loaded: LoadedVpa, *, scales_sidecars: bool) -> NewPod | None:
    template = loaded.resolution.template
    spec = shape_of_template(template).spec
    if not spec.containers:
        return None
    sidecars = filter(is_sidecar, spec.init_containers or ()) if scales_sidecars else ()
    return NewPod(
        spec=spec,
        scaled=tuple(each.name for each in (*spec.containers, *sidecars)),
        facts=scope_facts(
            spec,
            priority_class=template.spec.priority_class_name,
            deadline=template.spec.active_deadline_seconds,
        ),
    )


def _template_amounts(loaded: LoadedVpa) -> Mapping[str, Amounts]:
    spec = shape_of_template(loaded.resolution.template).spec
    return {each.name: each for each in pod_amounts(spec).all_containers}


def _controls(rule: ContainerRule, resource: str) -> bool:
    return not rule.off and resource in rule.controlled


def _keeps_limits(vpa: VerticalPodAutoscaler, name: str) -> bool:
    return controlled_values(container_policy(vpa, name)) == ControlledValues.REQUESTS_ONLY


def _uncapped(
    vpa: VerticalPodAutoscaler,
    scaled: Mapping[str, Collection[str]],
    present: Mapping[str, Amounts],
) -> tuple[ContainerAmounts, ...]:
    """Return what the containers want: the published uncapped target, else the present request."""
    published = recommended_amounts(vpa.status)
    found = []
    for name in sorted({name for names in scaled.values() for name in names}):
        one, requests = published.get(name), present[name].requests
        wanted = {} if one is None else {**one.target, **one.uncapped_target}
        target = {
            resource: wanted.get(resource, requests.get(resource, ZERO))
            for resource in RESOURCES
            if name in scaled[resource]
        }
        found.append(ContainerAmounts(name=name, target=target))
    return tuple(found)


def _present_uses(live: Sequence[CachedPod]) -> Iterator[PodUse]:
    """Yield what the pods use; quotas also count those that are being deleted."""
    groups: dict[tuple[int, ...], list[CachedPod]] = {}
    for each in live:
        groups.setdefault(tuple(map(id, _parts(each))), []).append(each)
    for pods in groups.values():
        used, facts = _use(pods[0])
        yield PodUse(count=len(pods), used=used, facts=facts)


def _new_pod_uses(
    sums: Mapping[str, PodSum], published: Mapping[str, Numbers]
) -> ResourceQuantities:
    """Return what a pod uses that admission gives the published targets, by the names in quotas."""
    found = {}
    for name, part in QUOTA_SUMS.items():
        resource = part.rpartition(".")[2]
        found[name] = quantity(resource, sums[part].of(published.get(resource, {})))
    return found


def _use(pod: CachedPod) -> tuple[ResourceQuantities, ScopeFacts]:
    return _uses.get(_parts(pod), lambda: _computed_use(pod))


def _parts(pod: CachedPod) -> tuple[object, ...]:
    status = pod.status
    return pod.spec, pod.whole_spec, status.container_statuses, status.init_container_statuses


def _computed_use(pod: CachedPod) -> tuple[ResourceQuantities, ScopeFacts]:
    whole = pod.whole_spec
    facts = scope_facts(
        whole,
        priority_class=pod.spec.priority_class_name,
        deadline=pod.spec.active_deadline_seconds,
    )
    return freed_by(Pod(metadata=pod.metadata, spec=whole, status=pod.status)), facts
