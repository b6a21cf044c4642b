"""Defaults and validation of VPA objects.

Source: ``resourceHandler`` and ``ValidateVPA``,
vertical-pod-autoscaler/pkg/admission-controller/resource/vpa/handler.go; admission.md 8.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from admission.field_errors import (
    FieldError,
    brief,
    forbidden,
    invalid,
    quoted,
    required,
    too_many,
    unsupported,
)
from admission.vpa_decoding import container_policies, path_of_policy
from common.api.autoscaling import (
    ContainerPolicy,
    EvictionRequirement,
    StartupBoost,
    TargetReference,
    UpdateMode,
    UpdatePolicy,
    VerticalPodAutoscaler,
)
from common.api.base import QuantityJson
from common.features import FeatureGates
from common.patches import Operation, add
from common.quantity import Quantity
from common.resources import CPU, MEMORY, RESOURCES, in_order
from common.target.references import api_version_problem

_MOST_ERRORS = 100  # formatting a million errors would delay the reviews of pods
_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_UNIT = 1_000_000_000
_NO_CONFIG = (None, None, None, None)
_KNOWN_MODES = frozenset(mode.value for mode in UpdateMode)
_MODES = tuple(sorted(_KNOWN_MODES - {UpdateMode.AUTO.value}))  # without the deprecated one
_NO_PER_VPA_CONFIG = "not supported when feature flag PerVPAConfig is disabled"
_NO_BOOST = (
    "in order to use startupBoost, you must enable feature gate CPUStartupBoost "
    "in the admission-controller args"
)
_NO_IN_PLACE = (
    "in order to use UpdateMode InPlace, you must enable feature gate InPlace "
    "in the admission-controller args"
)
_AUTO_IS_DEPRECATED = (
    'spec.updatePolicy: "Auto" mode is deprecated and will be removed in a future API version. '
    f"Use explicit update modes like: [{' '.join(_MODES)}]. "
    "See https://github.com/kubernetes/autoscaler/issues/8424 for more details."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaVerdict:
    """The decision about a VPA: it is refused if there are errors, and patched otherwise."""

    errors: tuple[FieldError, ...]
    warnings: tuple[str, ...]
    patches: tuple[Operation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowed:
    """The alpha features that a VPA may use: their gate is on, or the old object uses them."""

    in_place: bool
    per_vpa_config: bool
    startup_boost: bool
    controlled_resources: frozenset[str]  # names beyond cpu and memory that the old object uses


def admit_vpa(
    new: VerticalPodAutoscaler, old: VerticalPodAutoscaler | None, features: FeatureGates
) -> VpaVerdict:
    """Validate a VPA and set its only default, the update mode; ``old`` is None at creation.

    An object that already uses a feature whose gate is off may continue to use it. At most 100
    errors are returned, in the order of the fields.
    """
    allowed = _allowances(old, features)
    errors = tuple(islice(_errors(new, old, allowed), _MOST_ERRORS))
    warnings = tuple(islice(_warnings(new, allowed), _MOST_ERRORS))
    if errors or new.spec.update_policy is not None:
        return VpaVerdict(errors=errors, warnings=warnings, patches=())
    default = add("/spec/updatePolicy", {"updateMode": UpdateMode.RECREATE.value})
    return VpaVerdict(errors=(), warnings=warnings, patches=(default,))


def _allowances(old: VerticalPodAutoscaler | None, features: FeatureGates) -> _Allowed:
    if old is None:
        return _Allowed(
            in_place=features.in_place,
            per_vpa_config=features.per_vpa_config,
            startup_boost=features.cpu_startup_boost,
            controlled_resources=frozenset(),
        )
    policies = container_policies(old)
    update = old.spec.update_policy or UpdatePolicy()
    boost = old.spec.startup_boost
    return _Allowed(
        in_place=features.in_place or update.update_mode == UpdateMode.IN_PLACE,
        per_vpa_config=features.per_vpa_config
        or update.evict_after_oom_seconds is not None
        or any(_per_vpa_config(policy) != _NO_CONFIG for policy in policies),
        startup_boost=features.cpu_startup_boost
        or (boost is not None and boost.cpu is not None)
        or any(policy.startup_boost is not None for policy in policies),
        controlled_resources=frozenset(
            name for policy in policies for name in policy.controlled_resources or ()
        ),
    )


def _errors(
    new: VerticalPodAutoscaler, old: VerticalPodAutoscaler | None, allowed: _Allowed
) -> Iterator[FieldError]:
    if new.spec.update_policy is not None:
        before = None if old is None else (old.spec.update_policy or UpdatePolicy())
        yield from _update_policy_errors(new.spec.update_policy, before, allowed)
    for index, policy in enumerate(container_policies(new)):
        yield from _container_policy_errors(policy, path_of_policy(index), allowed)
    if new.spec.startup_boost is not None:
        yield from _boost_errors(new.spec.startup_boost, "spec.startupBoost", allowed)
    if old is None and new.spec.target_ref is None:
        yield required(
            "spec.targetRef",
            "targetRef is required; an object written for the removed v1beta1 API, which "
            "selects pods by labels, has to name its controller here",
        )
    yield from _target_errors(new.spec.target_ref, None if old is None else old.spec.target_ref)
    recommenders = new.spec.recommenders or ()
    if len(recommenders) > 1:
        yield too_many("spec.recommenders", len(recommenders), most=1)


def _target_errors(
    target: TargetReference | None, before: TargetReference | None
) -> Iterator[FieldError]:
    """Yield the error of an invalid apiVersion; an unchanged one is accepted (X116)."""
    if target is None or (before is not None and before.api_version == target.api_version):
        return
    if api_version_problem(target.api_version):
        sentence = "must be a version, or a group and a version, such as apps/v1"
        yield invalid("spec.targetRef.apiVersion", target.api_version, sentence)


def _update_policy_errors(
    policy: UpdatePolicy, before: UpdatePolicy | None, allowed: _Allowed
) -> Iterator[FieldError]:
    path = "spec.updatePolicy"
    mode = policy.update_mode
    if mode is None:
        yield required(f"{path}.updateMode", "updateMode is required if UpdatePolicy is used")
    elif mode not in _KNOWN_MODES:
        yield unsupported(f"{path}.updateMode", mode, _MODES)
    elif mode == UpdateMode.IN_PLACE and not allowed.in_place:
        yield forbidden(f"{path}.updateMode", _NO_IN_PLACE)
    if policy.min_replicas is not None and policy.min_replicas <= 0:
        yield invalid(f"{path}.minReplicas", policy.min_replicas, "minReplicas has to be positive")
    seconds = policy.evict_after_oom_seconds
    yield from _at_least(f"{path}.evictAfterOOMSeconds", seconds, seconds, 1, allowed)
    requirements = policy.eviction_requirements
    if requirements is not None and (
        before is None or before.eviction_requirements != requirements
    ):
        yield from _eviction_errors(requirements)


def _eviction_errors(requirements: tuple[EvictionRequirement, ...]) -> Iterator[FieldError]:
    """Yield the errors of contradictory requirements (KEP-4831) and of unsupported resources.

    The caller skips unchanged requirements, so that objects which the reference stored without this
    check stay editable.
    """
    path = "spec.updatePolicy.evictionRequirements"
    seen: set[str] = set()
    twice: set[str] = set()
    for index, requirement in enumerate(requirements):
        resources = requirement.resources or ()
        if not resources:
            sentence = f"requirement {index} must name at least one resource: cpu, memory or both"
            yield invalid(path, [], sentence)
        for name in resources:
            if name not in RESOURCES:
                yield invalid(path, name, f"requirement {index} may name cpu and memory only")
        twice |= seen & set(resources)
        seen |= set(resources)
    if twice:
        shown = [list(each.resources or ()) for each in requirements]
        names = " and ".join(in_order(twice))
        sentence = f"{names} may be in one requirement only, alone or in [cpu, memory]"
        yield invalid(path, shown, sentence)


def _container_policy_errors(
    policy: ContainerPolicy, path: str, allowed: _Allowed
) -> Iterator[FieldError]:
    if not policy.container_name:
        yield required(f"{path}.containerName")
    if policy.mode is not None and policy.mode not in ("Auto", "Off"):
        yield unsupported(f"{path}.mode", policy.mode, ("Auto", "Off"))
    yield from _bound_errors(policy.min_allowed or {}, policy.max_allowed or {}, path)
    if policy.mode == "Off" and policy.controlled_values == "RequestsAndLimits":
        yield forbidden(
            f"{path}.controlledValues",
            "controlledValues shouldn't be specified if container scaling mode is off",
        )
    for index, name in enumerate(policy.controlled_resources or ()):
        if name not in RESOURCES and name not in allowed.controlled_resources:
            yield unsupported(f"{path}.controlledResources[{index}]", name, RESOURCES)
    if _per_vpa_config(policy) != _NO_CONFIG:
        yield from _per_vpa_config_errors(policy, path, allowed)
    if policy.startup_boost is not None:
        yield from _boost_errors(policy.startup_boost, f"{path}.startupBoost", allowed)


def _bound_errors(
    lowest: Mapping[str, QuantityJson], highest: Mapping[str, QuantityJson], path: str
) -> Iterator[FieldError]:
    # The rules apply to cpu, memory, and resources with both bounds. Others need no parsing.
    for name in in_order(name for name in lowest if name in RESOURCES or name in highest):
        bottom = Quantity.from_json(lowest[name])
        yield from _resolution_errors(f"{path}.minAllowed[{name}]", name, bottom)
        top = Quantity.from_json(highest[name]) if name in highest else None
        if top is not None and top < bottom:
            yield invalid(
                f"{path}.maxAllowed[{name}]",
                str(top),
                f"max resource for {name} is lower than min of {quoted(str(bottom))}",
            )
    for name in RESOURCES:
        if name in highest:
            top = Quantity.from_json(highest[name])
            yield from _resolution_errors(f"{path}.maxAllowed[{name}]", name, top)


def _resolution_errors(field: str, resource: str, value: Quantity) -> Iterator[FieldError]:
    if resource == CPU and value.nanos % _NANOS_PER_MILLI:
        yield invalid(field, str(value), "must be a whole number of milli CPUs")
    if resource == MEMORY and value.nanos % _NANOS_PER_UNIT:
        yield invalid(field, str(value), "must be a whole number of bytes")


def _per_vpa_config_errors(
    policy: ContainerPolicy, path: str, allowed: _Allowed
) -> Iterator[FieldError]:
    ratio, bump, seconds, count = _per_vpa_config(policy)
    thousandths = None if ratio is None else Quantity.from_json(ratio).milli
    shown = None if thousandths is None else thousandths / 1000
    yield from _at_least(f"{path}.oomBumpUpRatio", shown, shown, 1.0, allowed)
    amount = None if bump is None else Quantity.from_json(bump)
    shown_amount = None if amount is None else amount.value
    low = None if amount is None else amount.sign
    yield from _at_least(f"{path}.oomMinBumpUp", shown_amount, low, 0, allowed)
    for name, value in (
        ("memoryAggregationIntervalSeconds", seconds),
        ("memoryAggregationIntervalCount", count),
    ):
        yield from _at_least(f"{path}.{name}", value, value, 1, allowed)


def _at_least(
    field: str, shown: float | None, value: float | None, least: float, allowed: _Allowed
) -> Iterator[FieldError]:
    """Yield the error of a field of the gate PerVPAConfig, if any."""
    if value is None:
        return
    if not allowed.per_vpa_config:
        yield forbidden(field, _NO_PER_VPA_CONFIG)
    elif value < least:
        yield invalid(field, shown, f"must be greater than or equal to {least}")


def _boost_errors(boost: StartupBoost, path: str, allowed: _Allowed) -> Iterator[FieldError]:
    if not allowed.startup_boost:
        yield forbidden(path, _NO_BOOST)
        return
    cpu = boost.cpu
    if cpu is None:
        return
    if cpu.type == "Factor":
        if cpu.factor is None:
            yield required(f"{path}.cpu.factor", "required when type is Factor")
        elif cpu.factor < 1:
            yield invalid(f"{path}.cpu.factor", cpu.factor, "must be >= 1 for type Factor")
    elif cpu.type == "Quantity":
        if cpu.quantity is None:
            yield required(f"{path}.cpu.quantity", "required when type is Quantity")
        else:
            quantity = Quantity.from_json(cpu.quantity)
            yield from _resolution_errors(f"{path}.cpu.quantity", CPU, quantity)
    elif cpu.type:
        yield unsupported(f"{path}.cpu.type", cpu.type, ("Factor", "Quantity"))
    else:
        yield required(f"{path}.cpu.type", "must be either Factor or Quantity")


def _warnings(new: VerticalPodAutoscaler, allowed: _Allowed) -> Iterator[str]:
    policy = new.spec.update_policy
    if policy is not None and policy.update_mode == UpdateMode.AUTO:
        yield _AUTO_IS_DEPRECATED
    if not allowed.controlled_resources:
        return
    for index, container in enumerate(container_policies(new)):
        for position, name in enumerate(container.controlled_resources or ()):
            if name not in RESOURCES and name in allowed.controlled_resources:
                field = f"{path_of_policy(index)}.controlledResources[{position}]"
                yield brief(
                    f"{field}: unsupported value {quoted(name)} is "
                    "allowed only because it is present in the existing VPA object; "
                    'supported values: "cpu", "memory"'
                )


def _per_vpa_config(
    policy: ContainerPolicy,
) -> tuple[QuantityJson, QuantityJson, int | None, int | None]:
    """Return the four container fields of the gate PerVPAConfig."""
    return (
        policy.oom_bump_up_ratio,
        policy.oom_min_bump_up,
        policy.memory_aggregation_interval_seconds,
        policy.memory_aggregation_interval_count,
    )
