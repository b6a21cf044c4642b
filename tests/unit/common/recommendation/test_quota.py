"""Pods that a ResourceQuota would certainly refuse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from admitted_pods import Json, worlds
from builders import CREATED as NOW
from builders import container, pod
from common.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.api.scheduling import SchedulablePodSpec
from common.quantity import ZERO, Quantity
from common.recommendation.preflight import Check, Refusal
from common.recommendation.quota import (
    exceeds_without,
    freed_by,
    replacement_refusal,
    resize_refusal,
    share_of,
)
from common.resources import parse_quantities
from sandbox.admission.quotas import (
    difference,
    exceeded,
    in_scope,
    missing_resources,
    pod_usage,
    quota_status,
)
from sandbox.objects.pod_resources import complete_pod_resources

Amounts = Mapping[str, str]


def quota(
    hard: Amounts,
    used: Amounts | None = None,
    *,
    scopes: Sequence[str] = (),
    selector: Mapping[str, Any] | None = None,
) -> ResourceQuota:
    return ResourceQuota(
        metadata=ObjectMeta(name="team", namespace="default"),
        spec=ResourceQuotaSpec(scopes=tuple(scopes) or None, scope_selector=selector),
        status=ResourceQuotaStatus(hard=hard, used=used),
    )


def app(requests: Amounts | None = None, limits: Amounts | None = None) -> Container:
    return container(requests=requests, limits=limits)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pod with a request of 100m; four of these pods use 400m."""

    id: str
    quota: ResourceQuota
    replacement: str = ""  # why the replacement would be refused
    resize: str = ""
    has: Container = field(default_factory=lambda: app({"cpu": "100m"}))
    then: Container = field(default_factory=lambda: app({"cpu": "200m"}))
    taken: Amounts = field(default_factory=dict)
    stanza: ResourceRequirements | None = None  # pod-level resources, before and after


USED = {"requests.cpu": "400m"}
MORE = "the pod would use 200m instead of 100m"
BOTH = f"ResourceQuota team allows 499m of requests.cpu, other pods use 300m, and {MORE}"
CASES = [
    Case(id="fits exactly", quota=quota({"requests.cpu": "500m"}, USED)),
    Case(
        id="one millicore short",
        quota=quota({"requests.cpu": "499m"}, USED),
        replacement=BOTH,
        resize=BOTH,
    ),
    Case(
        id="the short name of the same resource",
        quota=quota({"cpu": "499m"}, {"cpu": "400m"}),
        replacement=BOTH.replace("requests.cpu", "cpu"),
        resize=BOTH.replace("requests.cpu", "cpu"),
    ),
    Case(
        id="limits",
        quota=quota({"limits.memory": "1Gi"}, {"limits.memory": "1Gi"}),
        has=app(limits={"memory": "256Mi"}),
        then=app(limits={"memory": "257Mi"}),
        replacement="ResourceQuota team allows 1Gi of limits.memory, other pods use 768Mi, and the "
        "pod would use 257Mi instead of 256Mi",
        resize="ResourceQuota team allows 1Gi of limits.memory, other pods use 768Mi, and the pod "
        "would use 257Mi instead of 256Mi",
    ),
    Case(
        id="smaller, but the quota is below its usage: only a creation is refused",
        quota=quota({"requests.cpu": "300m"}, USED),
        then=app({"cpu": "50m"}),
        replacement="ResourceQuota team allows 300m of requests.cpu, other pods use 300m, and the "
        "pod would use 50m instead of 100m",
    ),
    Case(
        id="amounts of other actions since then count",
        quota=quota({"requests.cpu": "500m"}, USED),
        taken={"requests.cpu": "1m"},
        replacement="ResourceQuota team allows 500m of requests.cpu, other pods use 301m, and "
        f"{MORE}",
        resize=f"ResourceQuota team allows 500m of requests.cpu, other pods use 301m, and {MORE}",
    ),
    Case(id="the number of pods is unchanged", quota=quota({"pods": "4"}, {"pods": "4"})),
    Case(id="no status yet", quota=quota({"requests.cpu": "1m"})),
    Case(
        id="scope NotBestEffort",
        quota=quota({"requests.cpu": "499m"}, USED, scopes=["NotBestEffort"]),
        replacement=BOTH,
        resize=BOTH,
    ),
    Case(
        id="a scope that can't be judged",
        quota=quota({"requests.cpu": "499m"}, USED, scopes=["NotTerminating"]),
    ),
    Case(
        id="a selector without expressions selects all pods",
        quota=quota({"requests.cpu": "499m"}, USED, selector={"matchExpressions": []}),
        replacement=BOTH,
        resize=BOTH,
    ),
    Case(
        id="a container without a request that the quota counts",
        quota=quota({"limits.cpu": "9"}, {"limits.cpu": "0"}),
        replacement="container app would leave out limits.cpu, which ResourceQuota team counts",
    ),
    Case(
        id="pod-level resources count, and containers need none",
        quota=quota({"requests.cpu": "1", "limits.cpu": "9"}, {**USED, "limits.cpu": "0"}),
        stanza=ResourceRequirements(requests={"cpu": "1"}),
    ),
    Case(
        id="a count of another kind of objects",
        quota=quota({"persistentvolumeclaims": "0"}, {"persistentvolumeclaims": "0"}),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_quota(case: Case) -> None:
    running = pod(containers=(case.has,))
    running = structs.replace(running, spec=structs.replace(running.spec, resources=case.stanza))
    after = structs.replace(running.spec, containers=(case.then,))
    taken = parse_quantities(case.taken)
    found = replacement_refusal([case.quota], running, after, taken=taken)
    assert found == (Refusal(Check.QUOTA, case.replacement) if case.replacement else None)
    found = resize_refusal([case.quota], running, after, taken=taken)
    assert found == (Refusal(Check.QUOTA, case.resize) if case.resize else None)


def of_class(name: str) -> Mapping[str, Any]:
    one = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
    return {"matchExpressions": [one]}


@pytest.mark.parametrize(
    ("full", "is_refused"),
    [
        pytest.param(quota({"requests.cpu": "499m"}, USED, selector=of_class("high")), True),
        pytest.param(quota({"requests.cpu": "500m"}, USED, selector=of_class("high")), False),
        pytest.param(quota({"requests.cpu": "499m"}, USED, selector=of_class("low")), False),
        pytest.param(quota({"requests.cpu": "499m"}, USED, scopes=["Terminating"]), True),
        pytest.param(quota({"requests.cpu": "499m"}, USED, scopes=["NotTerminating"]), False),
    ],
    ids=["its priority class", "just fits", "another class", "its deadline", "pods without one"],
)
def test_a_quota_whose_scopes_certainly_include_the_pod(
    full: ResourceQuota, *, is_refused: bool
) -> None:
    spec = SchedulablePodSpec(
        containers=(app({"cpu": "100m"}),), priority_class_name="high", active_deadline_seconds=60
    )
    running = structs.replace(pod(), spec=spec)
    after = structs.replace(spec, containers=(app({"cpu": "200m"}),))

    assert (replacement_refusal([full], running, after, taken={}) is not None) == is_refused
    assert (resize_refusal([full], running, after, taken={}) is not None) == is_refused


def reported(running: Pod, actual: str, *, infeasible: bool = False) -> Pod:
    status = ContainerStatus(name="app", resources=ResourceRequirements(requests={"cpu": actual}))
    conditions = (PodCondition(type="PodResizePending", status="True", reason="Infeasible"),)
    return structs.replace(
        running,
        status=PodStatus(
            container_statuses=(status,), conditions=conditions if infeasible else None
        ),
    )


def test_the_larger_of_status_and_spec_counts() -> None:
    running = pod(containers=(app({"cpu": "100m"}),))
    assert share_of(reported(running, "90m"))["requests.cpu"] == parse_quantities({"": "100m"})[""]
    assert share_of(reported(running, "300m"))["requests.cpu"] == parse_quantities({"": "300m"})[""]
    after = structs.replace(running.spec, containers=(app({"cpu": "300m"}),))
    assert share_of(reported(running, "90m"), after)["requests.cpu"] == Quantity.parse("300m")
    assert share_of(reported(running, "400m"), after)["requests.cpu"] == Quantity.parse("400m")
    full = quota({"requests.cpu": "400m"}, USED)
    assert resize_refusal([full], reported(running, "100m"), after, taken={}) is not None
    assert resize_refusal([full], reported(running, "300m"), after, taken={}) is None


def test_nothing_is_certain_while_a_resize_is_infeasible() -> None:
    running = reported(pod(containers=(app({"cpu": "100m"}),)), "100m", infeasible=True)
    after = structs.replace(running.spec, containers=(app({"cpu": "300m"}),))
    full = quota({"requests.cpu": "400m"}, USED)
    assert resize_refusal([full], running, after, taken={}) is None
    assert replacement_refusal([full], running, after, taken={}) is not None


SENTENCE = 'pods "web-x" is forbidden: exceeded quota: team, requested: {}, used: {}, limited: {}'
SENTENCES = {
    "room once the old pod is gone": ("requests.cpu=200m", "requests.cpu=400m", "500m", False),
    "too large even without the old pod": ("requests.cpu=200m", "requests.cpu=401m", "500m", True),
    "a count of pods": ("pods=1", "pods=4", "4", False),
    "a count that was lowered": ("pods=1", "pods=5", "4", True),
    "a resource that the old pod lacks": ("x.io/gpu=1", "x.io/gpu=1", "1", True),
    "an invalid quantity": ("requests.cpu=many", "requests.cpu=400m", "500m", True),
}


@pytest.mark.parametrize(("requested", "used", "hard", "want"), SENTENCES.values(), ids=SENTENCES)
def test_a_refusal_beside_the_old_pod(requested: str, used: str, hard: str, *, want: bool) -> None:
    name = requested.partition("=")[0]
    sentence = SENTENCE.format(requested, used, f"{name}={hard}")
    freed = parse_quantities({"requests.cpu": "100m", "pods": "1"})
    assert exceeds_without(sentence, freed) is want


def test_a_pod_frees_its_resources_its_overhead_and_itself() -> None:
    plain = pod(
        containers=(
            app({"cpu": "1", "ephemeral-storage": "2Gi"}, {"ephemeral-storage": "3Gi"}),
            container(
                "gpu",
                requests={"hugepages-2Mi": "4Mi"},
                limits={"x.io/gpu": "1", "hugepages-2Mi": "4Mi"},
            ),
        )
    )
    overhead = {"cpu": "250m", "memory": "16Mi"}
    running = structs.replace(plain, spec=structs.replace(plain.spec, overhead=overhead))
    found = freed_by(reported(running, "1100m"))
    wanted = {
        "pods": "1",
        "count/pods": "1",
        "cpu": "1350m",
        "requests.cpu": "1350m",
        "requests.memory": "16Mi",
        "ephemeral-storage": "2Gi",
        "requests.ephemeral-storage": "2Gi",
        "limits.ephemeral-storage": "3Gi",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.x.io/gpu": "1",
    }
    assert {name: found.get(name) for name in wanted} == parse_quantities(wanted)


@pytest.mark.parametrize(
    ("limits", "freed"),
    [
        pytest.param({"cpu": "1"}, "1250m", id="overhead is added to a limit"),
        pytest.param({}, None, id="without a limit it is none"),
    ],
)
def test_overhead_frees_limits(limits: Amounts, freed: str | None) -> None:
    plain = pod(containers=(container(requests={"cpu": "1"}, limits=limits),))
    one = structs.replace(plain, spec=structs.replace(plain.spec, overhead={"cpu": "250m"}))

    found = freed_by(one).get("limits.cpu")

    assert found == (None if freed is None else Quantity.parse(freed))


def test_several_resources_and_another_message() -> None:
    freed = parse_quantities({"requests.cpu": "100m", "limits.memory": "1Gi"})
    both = SENTENCE.format(
        "limits.memory=2Gi,requests.cpu=200m",
        "limits.memory=3Gi,requests.cpu=400m",
        "limits.memory={},requests.cpu=500m",
    )
    assert not exceeds_without(both.format("4Gi"), freed)
    assert exceeds_without(both.format("3Gi"), freed)
    assert exceeds_without("failed quota: team: must specify limits.cpu", freed)


# Comparison with the sandbox


@st.composite
def replaced(draw: st.DrawFn) -> tuple[Json, Json, Json]:
    """Draw a pod, its replacement, and a quota that is nearly full."""
    before, after = draw(worlds()).pod, draw(worlds()).pod
    complete_pod_resources(before)
    complete_pod_resources(after)
    names = draw(st.lists(st.sampled_from(QUOTA_NAMES), min_size=1, max_size=3, unique=True))
    usage = pod_usage(after, NOW)
    hard = {}
    for name in names:
        amount = usage.get(name, ZERO)
        near = amount + Quantity.from_milli(draw(st.sampled_from([-1, 0, 1])))
        hard[name] = str(max(near, ZERO))
    scopes = draw(st.sampled_from([(), (), ("NotBestEffort",)]))
    if "pods" in hard:
        hard["pods"] = "1"
    made = {"metadata": {"name": "team"}, "spec": {"hard": hard, "scopes": list(scopes)}}
    return before, after, made


QUOTA_NAMES = [
    *("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),
    "pods",
]


@settings(max_examples=100, deadline=None, database=None)
@given(replaced())
def test_predictions_for_replacements_agree_with_the_sandbox(case: tuple[Json, Json, Json]) -> None:
    before, after, made = case
    full = {**made, "status": quota_status(made, [(before, pod_usage(before, NOW))])}
    freed = {**made, "status": quota_status(made, [])}
    counts = in_scope(made, after)
    refused = counts and bool(
        missing_resources(freed, after) or exceeded(freed, pod_usage(after, NOW))
    )
    found = replacement_refusal(
        [msgspec.convert(full, ResourceQuota)],
        msgspec.convert(before, Pod),
        msgspec.convert(after["spec"], PodSpec),
        taken={},
    )
    # The sandbox requires requests of containers even with pod-level resources.
    stated = any(one["spec"].get("resources") for one in (before, after))
    assert bool(found) == bool(refused) or stated, found


@settings(max_examples=100, deadline=None, database=None)
@given(replaced())
def test_predictions_for_resizes_agree_with_the_sandbox(case: tuple[Json, Json, Json]) -> None:
    before, after, made = case
    full = {**made, "status": quota_status(made, [(before, pod_usage(before, NOW))])}
    grown = difference(pod_usage(after, NOW), pod_usage(before, NOW))
    assume(in_scope(made, before) and in_scope(made, after))
    found = resize_refusal(
        [msgspec.convert(full, ResourceQuota)],
        msgspec.convert(before, Pod),
        msgspec.convert(after["spec"], PodSpec),
        taken={},
    )
    assert bool(found) == bool(exceeded(full, grown)), found
