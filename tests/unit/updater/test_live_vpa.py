"""The managed fields and conditions of a VPA that the updater reads."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from builders import vpa
from common.api.autoscaling import VerticalPodAutoscaler, VpaCondition, VpaStatus
from updater.snapshot.live_vpa import LiveVpa, in_force_since, policy_written_at, recommended_since

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
POLICY: dict[str, Any] = {
    "f:spec": {"f:updatePolicy": {".": {}, "f:updateMode": {}}, "f:targetRef": {}}
}


def entry(fields: Any = POLICY, *, time: Any = "2026-01-01T00:00:00Z", **more: Any) -> Any:
    return {"manager": "kubectl", "operation": "Update", "time": time, "fieldsV1": fields, **more}


def decoded(managed_fields: Any, *, status: Any = None) -> LiveVpa:
    raw = {
        "metadata": {"name": "web", "namespace": "shop", "managedFields": managed_fields},
        "spec": {"updatePolicy": {"updateMode": "Recreate"}},
        "status": status or {},
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=LiveVpa)


CASES = [
    pytest.param([entry()], EARLY, id="written once"),
    pytest.param([entry(), entry(time="2026-01-02T00:00:00Z")], LATE, id="the last of several"),
    pytest.param([entry(time="2026-01-02T01:00:00+01:00")], LATE, id="in another zone"),
    pytest.param(
        [entry(), entry({"f:spec": {"f:targetRef": {}}}, time="2026-01-02T00:00:00Z")],
        EARLY,
        id="a later write of something else",
    ),
    pytest.param(
        [entry(), entry({"f:status": {}}, time="2026-01-02T00:00:00Z", subresource="status")],
        EARLY,
        id="a later write of the status",
    ),
    pytest.param([entry({"f:spec": {"f:updatePolicy": {}}})], EARLY, id="the policy as a whole"),
    pytest.param([], None, id="no entries"),
    pytest.param(None, None, id="no managed fields"),
    pytest.param([entry(time=None)], None, id="an entry without a time"),
    pytest.param([entry(), entry(time=None)], None, id="one of the times is missing"),
    pytest.param([entry(time="yesterday")], None, id="an invalid time"),
    pytest.param([entry(time="2026-01-01T00:00:00")], None, id="a time without its zone"),
    pytest.param(
        ["kubectl", 7, {"fieldsV1": "all"}, {"fieldsV1": {"f:spec": []}}],
        None,
        id="entries of other types",
    ),
    pytest.param({"manager": "kubectl"}, None, id="not a list"),
]


@pytest.mark.parametrize(("managed_fields", "want"), CASES)
def test_policy_written_at(managed_fields: Any, want: datetime | None) -> None:
    assert policy_written_at(decoded(managed_fields)) == want


def test_only_the_time_is_kept() -> None:
    held = decoded([entry()])
    assert held.metadata.managed_fields == EARLY
    copied = msgspec.structs.replace(held.metadata, name="other")
    assert policy_written_at(msgspec.structs.replace(held, metadata=copied)) == EARLY


def test_a_vpa_without_managed_fields() -> None:
    assert policy_written_at(vpa()) is None


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        pytest.param({"status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}, LATE),
        pytest.param({"status": "False", "lastTransitionTime": "2026-01-02T00:00:00Z"}, None),
        pytest.param({"status": "True", "lastTransitionTime": None}, None),
        pytest.param({"status": "True"}, None),
    ],
    ids=["provided", "not provided", "without a time", "time left out"],
)
def test_recommended_since(condition: Any, want: datetime | None) -> None:
    conditions = [{"type": "LowConfidence", "status": "True"}, condition]
    conditions[1]["type"] = "RecommendationProvided"
    assert recommended_since(decoded([], status={"conditions": conditions})) == want


@pytest.mark.parametrize(
    ("written", "recommended", "want"),
    [
        pytest.param(EARLY, LATE, LATE, id="recommended after the policy"),
        pytest.param(LATE, EARLY, LATE, id="the policy after the recommendation"),
        pytest.param(None, LATE, None, id="unknown time of the policy"),
        pytest.param(LATE, None, None, id="no recommendation"),
    ],
)
def test_in_force_since(
    written: datetime | None, recommended: datetime | None, want: datetime | None
) -> None:
    held = decoded([entry(time=written)] if written else [])
    condition = VpaCondition(
        type="RecommendationProvided", status="True", last_transition_time=recommended
    )
    status = msgspec.structs.replace(held.status, conditions=(condition,) if recommended else ())
    assert in_force_since(msgspec.structs.replace(held, status=status)) == want


# Cached fields


def with_everything(name: str) -> Any:
    amounts = {"cpu": "25m", "memory": "250Mi"}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"team": "shop"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "ownerReferences": [{"kind": "Chart", "name": "shop"}],
            "managedFields": [entry()],
        },
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": "Recreate", "minReplicas": 1},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": "Auto"}]},
            "recommenders": [{"name": "own"}],
            "startupBoost": {"cpu": {"type": "Factor", "factor": 2}},
        },
        "status": {
            "conditions": [
                {"type": "LowConfidence", "status": "False"},
                {"type": "RecommendationProvided", "status": "True", "message": "text"},
            ],
            "recommendation": {
                "containerRecommendations": [
                    {
                        "containerName": "app",
                        "target": amounts,
                        "lowerBound": amounts,
                        "upperBound": amounts,
                        "uncappedTarget": amounts,
                    }
                ]
            },
        },
    }


def decoded_as(kind: type[VerticalPodAutoscaler], name: str = "web") -> VerticalPodAutoscaler:
    return msgspec.json.decode(msgspec.json.encode(with_everything(name)), type=kind)


def test_fields_that_the_updater_reads_are_kept() -> None:
    whole, held = decoded_as(VerticalPodAutoscaler), decoded_as(LiveVpa)
    assert held.spec == whole.spec
    for name in ("name", "namespace", "uid", "resource_version", "generation"):
        assert getattr(held.metadata, name) == getattr(whole.metadata, name)
    assert held.metadata.creation_timestamp == EARLY
    assert held.status.recommendation is not None
    (container,) = held.status.recommendation.container_recommendations or ()
    assert container.container_name == "app"
    assert container.target == container.lower_bound == container.upper_bound != {}


def test_unused_fields_are_dropped() -> None:
    held = decoded_as(LiveVpa)
    meta = held.metadata
    assert (meta.labels, meta.annotations, meta.owner_references) == (None, None, None)
    (condition,) = held.status.conditions or ()
    assert (condition.type, condition.status, condition.message) == (
        "RecommendationProvided",
        "True",
        "",
    )
    assert held.status.recommendation is not None
    (container,) = held.status.recommendation.container_recommendations or ()
    assert container.uncapped_target == {}


def test_equal_policies_are_the_same_object() -> None:
    one, other = decoded_as(LiveVpa, "web"), decoded_as(LiveVpa, "api")
    assert one.spec.target_ref != other.spec.target_ref
    assert one.spec.update_policy is other.spec.update_policy
    assert one.spec.resource_policy is other.spec.resource_policy
    assert one.metadata.namespace is other.metadata.namespace


def test_a_vpa_with_few_fields() -> None:
    held = msgspec.json.decode(b'{"metadata": {"name": "web"}}', type=LiveVpa)
    assert held.spec.target_ref is None
    assert held.status == VpaStatus()
    empty = b'{"metadata": {}, "status": {"recommendation": {}}}'
    recommended = msgspec.json.decode(empty, type=LiveVpa).status.recommendation
    assert recommended is not None
    assert recommended.container_recommendations is None
