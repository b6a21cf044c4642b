"""The scaled containers of a pod, native sidecars included (AEP-8905, X107), and their uses."""

from dataclasses import dataclass

import msgspec
import pytest

from builders import container, recommendation, vpa
from common.api.autoscaling import ContainerPolicy, ContainerRecommendation
from common.api.core import Container, ContainerStatus, LimitRangeItem, LimitRangeSpec, Pod
from common.quantity import Quantity
from common.recommendation.actual_resources import actual_requests, containers_of
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.expected_pod import replacement_spec
from common.recommendation.preflight import spec_refusal
from common.recommendation.processing import process
from common.recommendation.scaled_containers import (
    scaled_containers,
    scaled_specs,
    scaled_statuses,
)
from common.recommendation.unboosted_pod import before_boost
from sidecars import pod_with_init, sidecar

PLAIN = container("migrate", requests={"cpu": "1"})
PROXY = sidecar(requests={"cpu": "50m"})
LOG = sidecar("log")
APP = container("app", requests={"cpu": "100m"})


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    init: tuple[Container, ...] = ()
    gate: bool = True
    want: tuple[tuple[str, str], ...] = ()  # of init containers: kind and index, path


CASES = [
    Case(id="no init containers"),
    Case(id="a sidecar", init=(PROXY,), want=(("native sidecar 0", "/spec/initContainers/0"),)),
    Case(id="a plain init container", init=(PLAIN,)),
    Case(
        id="a sidecar after a plain init container keeps its index",
        init=(PLAIN, PROXY),
        want=(("native sidecar 1", "/spec/initContainers/1"),),
    ),
    Case(
        id="two sidecars, in their order",
        init=(LOG, PLAIN, PROXY),
        want=(
            ("native sidecar 0", "/spec/initContainers/0"),
            ("native sidecar 2", "/spec/initContainers/2"),
        ),
    ),
    Case(
        id="another restart policy: not a sidecar",
        init=(msgspec.structs.replace(PROXY, restart_policy="Never"),),
    ),
    Case(id="the gate is off", init=(PROXY, PLAIN), gate=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_scaled_containers(case: Case) -> None:
    given = pod_with_init(*case.init, gate=case.gate, containers=(APP, container("db")))
    found = scaled_containers(given)
    assert [(f"{each.kind} {each.index}", each.resources_path) for each in found] == [
        ("container 0", "/spec/containers/0/resources"),
        ("container 1", "/spec/containers/1/resources"),
        *((name, f"{path}/resources") for name, path in case.want),
    ]
    assert tuple(each.spec for each in found) == scaled_specs(given)


def reported(name: str, cpu: str) -> ContainerStatus:
    return msgspec.convert(
        {"name": name, "resources": {"requests": {"cpu": cpu}}}, type=ContainerStatus
    )


@pytest.mark.parametrize(
    ("gate", "want"), [(True, {"app", "proxy"}), (False, {"app"})], ids=["gate on", "gate off"]
)
def test_the_status_of_init_containers_counts_for_sidecars_only(
    want: set[str], *, gate: bool
) -> None:
    statuses = (reported("migrate", "9"), reported("proxy", "60m"))
    given = pod_with_init(PLAIN, PROXY, gate=gate, containers=(APP,), statuses=statuses)
    status = msgspec.structs.replace(given.status, container_statuses=(reported("app", "70m"),))
    given = msgspec.structs.replace(given, status=status)
    assert {each.name for each in scaled_statuses(given)} == want
    assert {each.name for each in containers_of(given)} == want
    assert actual_requests(given, "migrate") == {}
    wanted = {"cpu": Quantity.parse("60m")} if gate else {}
    assert actual_requests(given, "proxy") == wanted


# Recommendations

HALF = {"cpu": "500m"}


def wanted(given: Pod, *recommended: ContainerRecommendation) -> dict[str, WantedResources]:
    autoscaler = vpa(recommendations=recommended)
    found = wanted_resources(given, autoscaler, process(given, autoscaler, ()), ())
    return {each.name: want for each, want in zip(scaled_specs(given), found, strict=True)}


def test_a_plain_init_container_does_not_get_the_recommendation_of_a_sidecar() -> None:
    for_both = recommendation("proxy", target=HALF), recommendation("app", target=HALF)
    native = pod_with_init(PROXY, containers=(APP,))
    plain = pod_with_init(container("proxy", requests={"cpu": "50m"}), containers=(APP,))
    assert wanted(native, *for_both).keys() == {"app", "proxy"}
    assert wanted(native, *for_both)["proxy"].requests == {"cpu": Quantity.parse("500m")}
    assert wanted(plain, *for_both).keys() == {"app"}


@pytest.mark.parametrize("gate", [True, False], ids=["gate on", "gate off"])
def test_a_limit_range_for_pods_counts_sidecars(*, gate: bool) -> None:
    """The API server counts them: a pod whose sum without them fits would be refused."""
    given = pod_with_init(
        sidecar(requests={"cpu": "100m"}, limits={"cpu": "100m"}),
        PLAIN,
        gate=gate,
        containers=(container("app", requests={"cpu": "100m"}, limits={"cpu": "100m"}),),
    )
    most = LimitRangeSpec(limits=(LimitRangeItem(type="Pod", max={"cpu": "500m"}),))
    autoscaler = vpa(recommendations=(recommendation("app", target={"cpu": "800m"}),))
    processed = process(given, autoscaler, (most,))
    assert processed is not None
    assert processed.containers["app"].target == {"cpu": Quantity.parse("400m")}


REFUSED = (
    "the cpu limit of init container proxy would be 2, "
    "and the LimitRange's max for a Container is 1"
)


@pytest.mark.parametrize(
    ("gate", "want"), [(True, REFUSED), (False, "")], ids=["gate on", "gate off"]
)
def test_the_preflight_counts_the_recommendation_of_a_sidecar(want: str, *, gate: bool) -> None:
    """The policy's minimum takes precedence over the LimitRange's maximum (A9)."""
    bounded = container("app", requests={"cpu": "1m"}, limits={"cpu": "1"})
    given = pod_with_init(
        sidecar(requests={"cpu": "500m"}, limits={"cpu": "1"}), gate=gate, containers=(bounded,)
    )
    most = LimitRangeSpec(limits=(LimitRangeItem(type="Container", max={"cpu": "1"}),))
    policy = ContainerPolicy(container_name="proxy", min_allowed={"cpu": "1"})
    recommended = recommendation("proxy", target={"cpu": "1"})
    autoscaler = vpa(recommendations=(recommended,), policies=(policy,))
    found = spec_refusal(replacement_spec(given, autoscaler, (most,)), (most,))
    assert ("" if found is None else found.message) == want


# Boosts

BEFORE = '{"requests":{"cpu":"5m"},"limits":{}}'


def test_the_boost_of_a_sidecar_is_undone() -> None:
    marks = {f"vpaCpuStartupBoost/{name}": BEFORE for name in ("proxy", "migrate")}
    given = pod_with_init(
        PLAIN, PROXY, containers=(APP,), annotations=marks, statuses=(reported("proxy", "50m"),)
    )
    bare = before_boost(given)
    assert actual_requests(bare, "proxy") == {"cpu": Quantity.parse("5m")}
    assert (bare.spec.init_containers or ())[0] == PLAIN
    assert bare.spec.containers == given.spec.containers
    assert bare.spec.scales_sidecars


def test_without_the_gate_the_boost_of_a_sidecar_is_ignored() -> None:
    given = pod_with_init(
        PROXY, gate=False, containers=(APP,), annotations={"vpaCpuStartupBoost/proxy": BEFORE}
    )
    assert before_boost(given).spec == given.spec
