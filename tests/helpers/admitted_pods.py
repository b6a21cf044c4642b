"""Pods as a cluster with admission stores them, for any pod, VPA and LimitRange.

The order is the API server's: it sets defaults, its LimitRanger sets those of the namespace, the
webhook patches the pod, and the defaults are set once more.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonpatch
import msgspec
from hypothesis import strategies as st

from admission.pod_patch import pod_patch
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod, PodWithSidecars
from common.features import FeatureGates
from common.patches import Operation
from common.quantity import ZERO, Quantity
from common.recommendation.pod_level import PodLevelMode
from common.resources import RESOURCES, parse_quantities
from sandbox.admission.limit_ranger import apply_defaults
from sandbox.objects.defaults import fill
from sandbox.objects.pod_resources import pod_requests
from sandbox.objects.pod_resources import resources_of as resources_of_one
from sandbox.objects.resources import LIMIT_RANGES, PODS

Json = dict[str, Any]
Amounts = dict[str, str]

GATES = FeatureGates(cpu_startup_boost=True)


@dataclass(frozen=True, kw_only=True)
class World:
    """A template's pod, its VPA and the LimitRanges of its namespace; objects as JSON."""

    pod: Json
    vpa: Json
    limit_ranges: Sequence[Json] = ()
    most_boost: str = "0"  # the flag --max-allowed-cpu-boost
    pod_level: PodLevelMode = PodLevelMode.KEEP  # the flag --pod-level-resources
    scales_sidecars: bool = False  # the feature gate NativeSidecar

    @property
    def autoscaler(self) -> VerticalPodAutoscaler:
        return msgspec.convert(self.vpa, VerticalPodAutoscaler)

    @property
    def stored_limit_ranges(self) -> list[Json]:
        """Return the LimitRanges with the defaults that the API server adds."""
        stored = copy.deepcopy(list(self.limit_ranges))
        for limit_range in stored:
            fill(LIMIT_RANGES, limit_range)
        return stored

    @property
    def limits(self) -> list[LimitRangeSpec]:
        return [msgspec.convert(each["spec"], LimitRangeSpec) for each in self.stored_limit_ranges]

    @property
    def highest(self) -> dict[str, int]:
        """Return the LimitRanges' maximum for a container, in millicores and bytes."""
        found: dict[str, int] = {}
        for item in (item for spec in self.limits for item in spec.limits or ()):
            if item.type == "Container":
                for name, bound in _units(item.max).items():
                    found[name] = min(bound, found.get(name, bound))
        return found

    def decoded(self, pod: Json) -> Pod:
        """Return the pod as admission and updater decode it."""
        return msgspec.convert(pod, PodWithSidecars if self.scales_sidecars else Pod)

    def asked(self, pod: Json) -> Json:
        """Return the pod as it is sent to the webhook."""
        asked = copy.deepcopy(pod)
        fill(PODS, asked)
        apply_defaults(asked, self.stored_limit_ranges)
        return asked

    def admitted(self, pod: Json) -> Json:
        """Return the stored pod after the creation of ``pod``."""
        asked = self.asked(pod)
        operations = pod_patch(
            self.decoded(asked),
            self.autoscaler,
            self.limits,
            features=GATES,
            most_boost=Quantity.parse(self.most_boost),
            pod_level=self.pod_level,
        ).operations
        stored: Json = jsonpatch.apply_patch(asked, msgspec.to_builtins(operations))
        fill(PODS, stored)
        return stored

    @staticmethod
    def patched(pod: Json, operations: Sequence[Operation], *, without: Iterable[str]) -> Json:
        """Return the pod after a patch by the updater, ``without`` these annotations."""
        patched: Json = jsonpatch.apply_patch(pod, msgspec.to_builtins(operations))
        fill(PODS, patched)
        for name in without:
            del patched["metadata"]["annotations"][name]
        return patched


def resources_of(pod: Json) -> dict[str, Json]:
    """Return requests and limits by container, including init containers."""
    spec = pod["spec"]
    containers = (*spec["containers"], *spec.get("initContainers", ()))
    return {each["name"]: each.get("resources") or {} for each in containers}


def unscaled(pod: Json, *, sidecars: bool) -> list[Json]:
    """Return the init containers that must stay unchanged; ``sidecars`` is the feature gate."""
    return [
        each
        for each in pod["spec"].get("initContainers", ())
        if not sidecars or each.get("restartPolicy") != "Always"
    ]


def numbers(pod: Json) -> dict[str, dict[tuple[str, str], int]]:
    """Return resources in millicores and bytes, by (requests or limits, resource)."""
    return {
        name: {
            (part, resource): number
            for part, values in resources.items()
            for resource, number in _units(values).items()
        }
        for name, resources in resources_of(pod).items()
    }


def _units(values: Mapping[str, Any] | None) -> dict[str, int]:
    return {
        name: quantity.milli if name == "cpu" else quantity.value
        for name, quantity in parse_quantities(values).items()
    }


NAMES = ("app", "proxy", "log", "extra")
IMAGE = "registry.example/app:1"

# Small numbers, because of rounding, and some of ordinary size. All resources of a
# world have the same range, so that bounds, requests and recommendations are comparable.
SIZES = st.sampled_from([12, 120, 5000, 10**9])

# Most pods have no init containers.
INIT_CONTAINERS: Sequence[tuple[str, ...]] = (
    (),
    (),
    (),
    ("plain",),
    ("sidecar",),
    ("plain", "sidecar"),
    ("sidecar", "plain"),
    ("sidecar", "plain", "sidecar"),
)

# Whether a container has a request and a limit of a resource.
KINDS = ("both", "both", "both", "equal", "request", "limit", "none", "zero")

Draw = st.DrawFn


@dataclass(frozen=True)
class Numbers:
    """A generator of amounts up to ``most`` millicores or bytes."""

    draw: Draw
    most: int

    def sometimes(self) -> bool:
        return self.draw(st.booleans())

    def number(self, low: int = 1) -> int:
        return self.draw(st.integers(low, max(low, self.most)))

    def ascending(self, count: int) -> list[int]:
        return sorted(self.number() for _ in range(count))

    def some_of(self, values: Sequence[str]) -> list[str]:
        return [value for value in values if self.sometimes()]

    def amounts(self) -> Amounts:
        """Draw cpu, memory, both, or neither."""
        return {name: text(name, self.number()) for name in RESOURCES if self.sometimes()}

    def resources(self) -> Json:
        """Draw valid requests and limits: no request exceeds its limit."""
        requests: Amounts = {}
        limits: Amounts = {}
        for name in RESOURCES:
            request, limit = self.ascending(2)
            kind = self.draw(st.sampled_from(KINDS))
            if kind in ("both", "request"):
                requests[name] = text(name, request)
            if kind == "equal":
                requests[name] = text(name, limit)
            if kind == "zero":
                requests[name] = "0"
            if kind in ("both", "limit", "equal", "zero"):
                limits[name] = text(name, limit)
        parts = {"requests": requests, "limits": limits}
        return {part: values for part, values in parts.items() if values or self.sometimes()}

    def bounds(self, kind: str) -> Json:
        """Draw one item of a LimitRange with numbers in the order that the API server requires."""
        item: Json = {"type": kind}
        between = ("defaultRequest", "default") if kind == "Container" else ()
        parts = ("min", *between, "max")
        for name in RESOURCES:
            for part, number in zip(parts, self.ascending(len(parts)), strict=True):
                if self.sometimes():
                    factor = 2 if kind == "Pod" and part == "max" else 1
                    item.setdefault(part, {})[name] = text(name, number * factor)
        return item

    def policy(self, name: str, *, boosts: bool) -> Json:
        policy: Json = {"containerName": name}
        if self.sometimes():
            policy["mode"] = self.draw(st.sampled_from(["Auto", "Auto", "Off"]))
        if self.sometimes():
            values = ["RequestsAndLimits", "RequestsOnly"]
            policy["controlledValues"] = self.draw(st.sampled_from(values))
        for key in ("minAllowed", "maxAllowed"):
            if self.draw(st.integers(0, 3)) == 0:
                policy[key] = self.amounts()
        if self.draw(st.integers(0, 3)) == 0:
            policy["controlledResources"] = self.some_of(RESOURCES)
        if boosts and self.sometimes():
            policy["startupBoost"] = {"cpu": self.boost()}
        return policy

    def boost(self) -> Json:
        if self.sometimes():
            return {"type": "Factor", "factor": self.draw(st.integers(1, 9))}
        return {"type": "Quantity", "quantity": text("cpu", self.number())}

    def recommendation(self, name: str, policies: Sequence[Json]) -> Json:
        """Draw a recommendation, mostly only for the resources that the policies control."""
        own = [each for each in policies if each["containerName"] == name]
        rule = next(iter(own + [each for each in policies if each["containerName"] == "*"]), {})
        controlled = rule.get("controlledResources", RESOURCES)
        target = {each: self.odd(each) for each in controlled}
        if self.draw(st.integers(0, 3)) == 0:
            target = self.amounts()
        if self.draw(st.integers(0, 9)) == 0:
            target[self.draw(st.sampled_from(["", "example.com/gpu"]))] = "1"
        return {
            "containerName": name,
            "target": target,
            "lowerBound": self.amounts(),
            "upperBound": self.amounts(),
        }

    def init_containers(self) -> Json:
        """Draw plain init containers and native sidecars."""
        kinds = self.draw(st.sampled_from(INIT_CONTAINERS))
        always = {"restartPolicy": "Always"}
        containers = [
            {"name": f"{kind}{number}", "image": IMAGE, "resources": self.resources()}
            | (always if kind == "sidecar" else {})
            for number, kind in enumerate(kinds)
        ]
        return {"initContainers": containers} if containers else {}

    def pod_resources(self, spec: Json) -> Json:
        """Draw valid resources of the whole pod; most pods have none.

        The request or the limit may be the sum of all containers, as the API server defaults it.
        """
        if self.draw(st.integers(0, 2)):
            return {}
        asked: Json = {"spec": copy.deepcopy(spec)}
        fill(PODS, asked)
        parts: Json = {"requests": {}, "limits": {}}
        for name in RESOURCES:
            kind = self.draw(st.sampled_from(("request", "limit", "both", "filled", "none")))
            unit = 10**6 if name == "cpu" else 10**9
            inside = -(-pod_requests(asked).get(name, ZERO).nanos // unit)
            held = [resources_of_one(each, "limits").get(name, ZERO) for each in containers(asked)]
            most = max(-(-each.nanos // unit) for each in held)
            request = inside + self.draw(st.sampled_from((0, 0, 1, self.number())))
            limit = max(request, most) + self.draw(st.sampled_from((0, 1, self.number())))
            if kind in ("request", "both"):
                parts["requests"][name] = text(name, request)
            if kind == "filled":
                parts["requests"][name] = text(name, inside)
            if kind in ("limit", "both", "filled"):
                parts["limits"][name] = text(name, limit)
        return {"resources": {part: values for part, values in parts.items() if values}}

    def odd(self, resource: str) -> str:
        """Draw a quantity in another unit, or with a finer resolution than is counted."""
        number = self.number()
        if self.draw(st.integers(0, 5)):
            return text(resource, number)
        if resource == "cpu":
            return self.draw(st.sampled_from([f"{number * 1000 - 1}u", f"{number}", "0"]))
        return self.draw(st.sampled_from([f"{number * 1000 - 1}m", f"{number}Ki", "0"]))


def containers(pod: Json) -> list[Json]:
    """Return the regular containers."""
    found: list[Json] = pod["spec"]["containers"]
    return found


def text(resource: str, number: int) -> str:
    return f"{number}m" if resource == "cpu" else str(number)


@st.composite
def worlds(draw: Draw, *, boosts: bool = False) -> World:
    """Draw any pod with any VPA and LimitRanges that the API server would store."""
    some = Numbers(draw, draw(SIZES))
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    init = some.init_containers()
    # There may be recommendations for init containers, even if they have no effect.
    named = (*names, *(each["name"] for each in init.get("initContainers", ())))
    policies = [some.policy(name, boosts=boosts) for name in some.some_of((*named, "*"))]
    spec: Json = {"resourcePolicy": {"containerPolicies": policies}}
    if boosts and some.sometimes():
        spec["startupBoost"] = {"cpu": some.boost()}
    kinds = draw(st.lists(st.sampled_from(["Container", "Pod"]), max_size=3))
    pod_spec: Json = {
        "containers": [
            {"name": name, "image": IMAGE, "resources": some.resources()} for name in names
        ],
        **init,
    }
    return World(
        pod={
            "metadata": {"name": "web-0", "namespace": "default"},
            "spec": pod_spec | some.pod_resources(pod_spec),
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
        },
        vpa={
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec,
            "status": {
                "recommendation": {
                    "containerRecommendations": [
                        some.recommendation(name, policies)
                        for name in named
                        if draw(st.integers(0, 3))
                    ]
                }
            },
        },
        limit_ranges=[
            {"metadata": {"name": "bounds"}, "spec": {"limits": [some.bounds(kind)]}}
            for kind in kinds
        ],
        most_boost=text("cpu", some.number()) if boosts and some.sometimes() else "0",
        pod_level=draw(st.sampled_from(PodLevelMode)),
        scales_sidecars=some.sometimes(),
    )
