"""The settings of VPAs that are created for many workloads, from flags and annotations."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.vpa_validation import admit_vpa
from common.api.autoscaling import (
    ContainerPolicy,
    ResourcePolicy,
    TargetReference,
    UpdateMode,
    UpdatePolicy,
    VerticalPodAutoscaler,
    VpaSpec,
)
from common.api.meta import ObjectMeta
from common.features import FeatureGates
from common.recommendation.policy import ControlledValues
from common.vpa_creation.policy import (
    PREFIX,
    CreationPolicy,
    Setting,
    SettingError,
    annotated_policy,
    parse_policy,
)


@dataclass(frozen=True, kw_only=True)
class Valid:
    id: str
    settings: dict[str, str]
    want: dict[str, Any] = field(default_factory=dict)


VALID = [
    Valid(id="nothing: mode Off", settings={}),
    Valid(id="a mode", settings={"mode": "Recreate"}, want={"mode": UpdateMode.RECREATE}),
    Valid(
        id="a mode behind a gate is the webhook's to refuse",
        settings={"mode": "InPlace"},
        want={"mode": UpdateMode.IN_PLACE},
    ),
    Valid(id="one replica", settings={"min-replicas": "1"}, want={"min_replicas": 1}),
    Valid(
        id="amounts with spaces, in the order of resources",
        settings={"min-allowed": "memory=100Mi, cpu = 50m"},
        want={"min_allowed": {"cpu": "50m", "memory": "100Mi"}},
    ),
    Valid(
        id="equal bounds",
        settings={"min-allowed": "cpu=1", "max-allowed": "cpu=1000m"},
        want={"min_allowed": {"cpu": "1"}, "max_allowed": {"cpu": "1"}},
    ),
    Valid(
        id="bounds of different resources",
        settings={"min-allowed": "cpu=1", "max-allowed": "memory=1"},
        want={"min_allowed": {"cpu": "1"}, "max_allowed": {"memory": "1"}},
    ),
    Valid(
        id="one resource",
        settings={"controlled-resources": "memory"},
        want={"controlled_resources": ("memory",)},
    ),
    Valid(
        id="values",
        settings={"controlled-values": "RequestsOnly"},
        want={"controlled_values": ControlledValues.REQUESTS_ONLY},
    ),
]


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.id)
def test_valid_settings(case: Valid) -> None:
    assert parse_policy(case.settings) == CreationPolicy(**case.want)


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.id)
def test_the_webhook_admits_what_is_valid(case: Valid) -> None:
    made = parse_policy(case.settings)
    assert admitted(made.update_policy, made.resource_policy)


INVALID = [
    ("mode", "Auto", "'Auto' is none of Off, Initial, Recreate, InPlaceOrRecreate, InPlace"),
    (
        "mode",
        "recreate",
        "'recreate' is none of Off, Initial, Recreate, InPlaceOrRecreate, InPlace",
    ),
    ("min-replicas", "0", "'0' is no whole number of at least 1"),
    ("min-replicas", "two", "'two' is no whole number of at least 1"),
    ("min-allowed", "", "'' doesn't have the form cpu=50m,memory=100Mi"),
    ("min-allowed", "cpu=1,", "'cpu=1,' doesn't have the form cpu=50m,memory=100Mi"),
    ("min-allowed", "50m", "'50m' doesn't have the form cpu=50m,memory=100Mi"),
    ("min-allowed", "gpu=1", "'gpu=1' doesn't have the form cpu=50m,memory=100Mi"),
    ("min-allowed", "cpu=", "'cpu=' doesn't have the form cpu=50m,memory=100Mi"),
    ("min-allowed", "cpu=1,cpu=2", "'cpu=1,cpu=2' doesn't have the form cpu=50m,memory=100Mi"),
    ("min-allowed", "cpu=1u", "cpu=1u is no whole number of milli CPUs"),
    ("max-allowed", "memory=1m", "memory=1m is no whole number of bytes"),
    ("controlled-resources", "", "'' is none of cpu, memory and cpu,memory"),
    ("controlled-resources", "disk", "'disk' is none of cpu, memory and cpu,memory"),
    ("controlled-resources", "cpu,", "'cpu,' is none of cpu, memory and cpu,memory"),
    ("controlled-resources", "cpu memory", "'cpu memory' is none of cpu, memory and cpu,memory"),
    ("controlled-resources", "cpu,cpu", "'cpu,cpu' is none of cpu, memory and cpu,memory"),
    ("controlled-values", "Limits", "'Limits' is none of RequestsAndLimits, RequestsOnly"),
    (
        "max-alowed",
        "cpu=1",
        (
            "unknown; use one of mode, min-replicas, min-allowed, max-allowed, "
            "controlled-resources, controlled-values"
        ),
    ),
]


@pytest.mark.parametrize(("name", "text", "problem"), INVALID, ids=lambda value: value or "empty")
def test_invalid_settings(name: str, text: str, problem: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_policy({name: text})
    assert (caught.value.setting, caught.value.problem) == (name, problem)


@pytest.mark.parametrize("amount", ["much", "-1"])
def test_a_text_that_is_no_unsigned_quantity_is_refused(amount: str) -> None:
    with pytest.raises(SettingError, match=f"min-allowed: cpu={amount}: "):
        parse_policy({"min-allowed": f"cpu={amount}"})


def test_a_maximum_below_the_minimum_is_refused() -> None:
    with pytest.raises(SettingError) as caught:
        parse_policy({"min-allowed": "memory=1Gi", "max-allowed": "memory=1000Mi"})
    assert str(caught.value) == "max-allowed: memory=1000Mi is less than min-allowed, memory=1Gi"


@pytest.mark.parametrize(
    ("update", "policy"),
    [
        pytest.param({"update_mode": "recreate"}, {}, id="mode"),
        pytest.param({"update_mode": "Off", "min_replicas": 0}, {}, id="replicas"),
        pytest.param({}, {"min_allowed": {"cpu": "1u"}}, id="a part of a milli CPU"),
        pytest.param({}, {"max_allowed": {"memory": "1m"}}, id="a part of a byte"),
        pytest.param({}, {"min_allowed": {"cpu": "2"}, "max_allowed": {"cpu": "1"}}, id="bounds"),
        pytest.param({}, {"controlled_resources": ("gpu",)}, id="resource"),
    ],
)
def test_the_webhook_has_the_rules_that_are_applied_here(
    update: dict[str, Any], policy: dict[str, Any]
) -> None:
    """The cases above are refused for a reason: such VPAs could not be created."""
    entry = ContainerPolicy(container_name="*", **policy)
    wanted = UpdatePolicy(**{"update_mode": "Off", **update})
    assert not admitted(wanted, ResourcePolicy(container_policies=(entry,)))


def test_the_policy_of_a_namespace_is_in_annotations_with_the_prefix() -> None:
    annotations = {
        "owner": "shop",
        "vpa.autoscaling/mode": "Initial",
        "vpa.autoscaling/max-allowed": "cpu=2",
    }
    want = CreationPolicy(mode=UpdateMode.INITIAL, max_allowed={"cpu": "2"})
    assert annotated_policy(annotations) == want


def test_a_misspelt_annotation_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"^max-alowed: unknown"):
        annotated_policy({"vpa.autoscaling/max-alowed": "cpu=2"})


def test_no_annotations_are_the_default_policy() -> None:
    assert annotated_policy(None) == CreationPolicy()


def test_every_setting_is_written_to_the_vpa() -> None:
    texts: dict[str, str] = {
        Setting.MODE: "Recreate",
        Setting.MIN_REPLICAS: "3",
        Setting.MIN_ALLOWED: "cpu=50m",
        Setting.MAX_ALLOWED: "memory=4Gi",
        Setting.CONTROLLED_RESOURCES: "memory,cpu",
        Setting.CONTROLLED_VALUES: "RequestsOnly",
    }
    assert set(texts) == set(Setting)
    made = parse_policy(texts)
    assert made.update_policy == UpdatePolicy(update_mode="Recreate", min_replicas=3)
    entry = ContainerPolicy(
        container_name="*",
        min_allowed={"cpu": "50m"},
        max_allowed={"memory": "4Gi"},
        controlled_resources=("cpu", "memory"),
        controlled_values="RequestsOnly",
    )
    assert made.resource_policy == ResourcePolicy(container_policies=(entry,))


def test_without_settings_there_is_no_resource_policy() -> None:
    assert CreationPolicy().resource_policy is None


def admitted(update: UpdatePolicy, policy: ResourcePolicy | None) -> bool:
    """Return True if the webhook admits a new VPA with all gates on."""
    vpa = VerticalPodAutoscaler(
        metadata=ObjectMeta(name="web", namespace="shop"),
        spec=VpaSpec(
            target_ref=TargetReference(api_version="apps/v1", kind="Deployment", name="web"),
            update_policy=update,
            resource_policy=policy,
        ),
    )
    return not admit_vpa(vpa, None, FeatureGates(in_place=True)).errors


_SETTINGS = st.sampled_from([*Setting, "other"])
_TEXTS = st.one_of(
    st.text(),
    st.from_regex(r"(cpu|memory)=[-+]?[0-9]{1,3}(\.[0-9])?(m|u|Ki|E|e[0-9]+)?", fullmatch=True),
    st.builds(lambda digit, count: digit * count, st.sampled_from("09"), st.integers(1, 10_000)),
)


@given(st.dictionaries(st.builds(PREFIX.__add__, _SETTINGS), _TEXTS, max_size=3))
def test_any_annotations_are_a_policy_or_an_error(annotations: dict[str, str]) -> None:
    """An exception of another type would end the recommender."""
    with contextlib.suppress(SettingError):
        made = annotated_policy(annotations)
        assert admitted(made.update_policy, made.resource_policy)
