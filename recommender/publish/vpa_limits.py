"""The limits of each VPA, from all sources."""

from collections.abc import Mapping, Sequence

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


class LimitTable:
    """The limits of VPAs; equal ones are the same object in each cycle."""

    def __init__(self, usage: Usage, sources: Sequence[LimitSource]) -> None:
        self._usage = usage
        self._sources = sources
        self._known: dict[VpaKey, VpaLimits] = {}
        self._claims = IdentityCache[PodClaims | None](_SHAPES)
        self._templates = IdentityCache[PodShape](_SHAPES)
        self._are_old = IdentityCache[bool](_SHAPES)

    def begin(self, vpas: Mapping[VpaKey, LoadedVpa]) -> None:
        """Follow the cluster, for the VPAs of this cycle."""
        for source in self._sources:
            source.begin(vpas)
        for key in self._known.keys() - vpas.keys():
            del self._known[key]

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
        """Return the shape of the newest pod, or else of the template of the target.

        Pods that are Pending aren't loaded. So if the pod was made from an older template, where
        its rules say so, the pods to come have the rules of the present one.
        """
        found = self._usage.pod_shape(key)
        template = loaded.resolution.template
        if not template.spec.containers:
            return found
        made = self._templates.get((template,), lambda: _shape(template))
        if found is None or found.rules is made.rules:
            return found or made
        rules = (found.rules, made.rules)
        is_old = self._are_old.get(rules, lambda: not may_come_from(*rules))
        return PodShape(made.rules, found.spec) if is_old else found


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
