"""The limits of each VPA, from all sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.api.workloads import ResourcesTemplate
from common.identity_cache import IdentityCache
from common.quantity import QuantityError
from common.scheduling.eligibility import may_come_from
from common.scheduling.pod_claims import PodClaims, PodShape, claims_of, shape_of_template
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage
from recommender.publish.pod_limits import LimitSource, VpaLimits
from recommender.sources.cached_pod import rules_pool
from recommender.sources.target_resolution import LoadedVpa

_SHAPES = 1 << 16  # pods and templates whose claims are cached


@dataclass(frozen=True, slots=True)
class _Pod:
    """The pods to come of a VPA, and what they follow from."""

    newest: PodShape | None  # that runs
    template: ResourcesTemplate
    shape: PodShape | None


class LimitTable:
    """The limits of VPAs; equal ones are the same object in each cycle."""

    def __init__(self, usage: Usage, sources: Sequence[LimitSource]) -> None:
        self._usage = usage
        self._sources = sources
        self._known: dict[VpaKey, VpaLimits] = {}
        self._claims = IdentityCache[PodClaims | None](_SHAPES)
        self._pods: dict[VpaKey, _Pod] = {}

    def begin(self, vpas: Mapping[VpaKey, LoadedVpa]) -> None:
        """Follow the cluster, for the VPAs of this cycle."""
        for source in self._sources:
            source.begin(vpas)
        for key in self._pods.keys() - vpas.keys():
            self._known.pop(key, None)
            del self._pods[key]

    def of(self, key: VpaKey, loaded: LoadedVpa) -> VpaLimits | None:
        """Return the limits of a VPA; None: there are none, or its pods aren't known."""
        pod = self._pod(key, loaded)
        if pod is None:
            return None
        found = (source.limit(key, loaded, pod) for source in self._sources)
        limits = tuple(each for each in found if each is not None)
        if not limits:
            return None
        known = self._known.get(key)
        if known is not None and known.limits == limits and _is_same(known.pod, pod):
            return known
        claims = self._claims.get((pod.spec,), lambda: _claims(pod))
        if claims is None:
            return None
        self._known[key] = VpaLimits(pod=pod, claims=claims, limits=limits)
        return self._known[key]

    def _pod(self, key: VpaKey, loaded: LoadedVpa) -> PodShape | None:
        newest, template = self._usage.pod_shape(key), loaded.resolution.template
        known = self._pods.get(key)
        if known is None or known.newest is not newest or known.template is not template:
            known = self._pods[key] = _Pod(newest, template, _next_pod(newest, template))
        return known.shape


def _next_pod(newest: PodShape | None, template: ResourcesTemplate) -> PodShape | None:
    """Return the shape of the newest pod, or else of the template of the target.

    Pods that are Pending aren't loaded. So if the pod was made from an older template, where its
    rules say so, the pods to come have the rules of the present one.
    """
    if not template.spec.containers:
        return newest
    made = _shape(template)
    if newest is None or may_come_from(newest.rules, made.rules):
        return newest or made
    return PodShape(made.rules, newest.spec)


def _shape(template: ResourcesTemplate) -> PodShape:
    """Return the shape of a template; equal rules are the same object, also as those of pods."""
    shape = shape_of_template(template)
    return PodShape(rules_pool.shared(shape.rules), shape.spec)


def _is_same(one: PodShape, other: PodShape) -> bool:
    """Return True if two shapes are equal; the parts of cached pods are shared."""
    return (one.rules is other.rules and one.spec is other.spec) or one == other


def _claims(pod: PodShape) -> PodClaims | None:
    try:
        return claims_of(pod.spec)
    except QuantityError:  # which no API server stores
        return None
