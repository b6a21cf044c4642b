"""The phases of a pod: containers that run at the same time must fit together (A25, A26, A30).

``app`` is a regular container with 100m of CPU, ``proxy`` a native sidecar with 100m, and
``migrate`` a plain init container with 800m. The API server adds the requests of the app and the
proxy. If the proxy starts first, it also adds those of the proxy and ``migrate``.
"""

from dataclasses import dataclass

import msgspec
import pytest

from builders import container, recommendation, vpa
from common.api.autoscaling import ContainerPolicy, GenericStartupBoost, StartupBoost
from common.api.core import (
    Container,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    ResourceRequirements,
)
from common.quantity import ZERO
from common.recommendation.admitted_resources import AdmittedResources, admitted_resources
from common.recommendation.pod_amounts import phases_of, pod_amounts
from common.recommendation.pod_level import PodLevelMode
from common.recommendation.scaled_containers import scaled_specs
from common.resources import CPU, ResourceQuantities
from sidecars import pod_with_init, sidecar


def new_container(name: str, cpu: str, *, limited: bool = False) -> Container:
    return container(name, requests={"cpu": cpu}, limits={"cpu": cpu} if limited else None)


def proxy(name: str = "proxy", *, limited: bool = False) -> Container:
    limits = {"cpu": "100m"} if limited else None
    return sidecar(name, requests={"cpu": "100m"}, limits=limits)


APP = new_container("app", "100m")
MIGRATE = new_container("migrate", "800m")
LIMITED_APP = new_container("app", "100m", limited=True)
LIMITED_PROXY = proxy(limited=True)
LIMITED_MIGRATE = new_container("migrate", "800m", limited=True)


def cpu_resources(request: str | None = None, limit: str | None = None) -> ResourceRequirements:
    return ResourceRequirements(
        requests=None if request is None else {"cpu": request},
        limits=None if limit is None else {"cpu": limit},
    )


def pod_limit_range(**bounds: str) -> LimitRangeSpec:
    parts = {part: {"cpu": value} for part, value in bounds.items()}
    return LimitRangeSpec(limits=(LimitRangeItem(type="Pod", **parts),))


def cpu(amounts: ResourceQuantities) -> str:
    return str(amounts[CPU]) if CPU in amounts else ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """``want`` has the CPU requests of the scaled containers, sidecars last; empty: unchanged."""

    id: str
    want: tuple[str, ...]
    app: Container = APP
    init: tuple[Container, ...] = (proxy(), MIGRATE)
    targets: tuple[tuple[str, str], ...] = (("app", "100m"), ("proxy", "500m"))
    whole: ResourceRequirements | None = None
    mode: PodLevelMode = PodLevelMode.KEEP
    limit_ranges: tuple[LimitRangeSpec, ...] = ()
    gate: bool = True
    want_whole: tuple[str, str] = ("", "")  # request and limit; empty: unchanged

    @property
    def pod(self) -> Pod:
        given = pod_with_init(*self.init, gate=self.gate, containers=(self.app,))
        spec = msgspec.structs.replace(given.spec, resources=self.whole)
        return msgspec.structs.replace(given, spec=spec)

    def admitted(self) -> AdmittedResources:
        recommended = tuple(recommendation(name, target={"cpu": cpu}) for name, cpu in self.targets)
        return admitted_resources(
            self.pod, vpa(recommendations=recommended), self.limit_ranges, pod_level=self.mode
        )


CASES = [
    Case(
        id="own request: the sidecar gets what the init container after it leaves",
        whole=cpu_resources("1"),
        want=("100m", "200m"),
    ),
    Case(
        id="own request: an init container before the sidecar takes nothing from it",
        init=(MIGRATE, proxy()),
        whole=cpu_resources("1"),
        want=("100m", "500m"),
    ),
    Case(
        id="own request: the app and the reduced sidecar share it",
        targets=(("app", "900m"), ("proxy", "500m")),
        whole=cpu_resources("1"),
        want=("818m", "181m"),
    ),
    Case(
        id="own request: a sidecar after the init container doesn't count beside it",
        init=(proxy(), MIGRATE, proxy("log")),
        targets=(("proxy", "500m"), ("log", "500m")),
        whole=cpu_resources("1"),
        want=("", "200m", "500m"),
    ),
    Case(
        id="own request: a sidecar that isn't recommended keeps what it has",
        init=(proxy("log"), proxy(), MIGRATE),
        whole=cpu_resources("1"),
        want=("100m", "", "100m"),
    ),
    Case(
        id="filled in: up to the limit in each phase",
        whole=cpu_resources("900m", "1200m"),
        want=("100m", "400m"),
        want_whole=("1200m", ""),
    ),
    Case(
        id="follow: up to the maximum for pods in each phase",
        whole=cpu_resources("1", "1"),
        mode=PodLevelMode.FOLLOW,
        limit_ranges=(pod_limit_range(max="1200m"),),
        want=("100m", "400m"),
        want_whole=("1200m", "1200m"),
    ),
    Case(
        id="a maximum for pods: the sidecar gets what the init container after it leaves",
        app=LIMITED_APP,
        init=(LIMITED_PROXY, LIMITED_MIGRATE),
        limit_ranges=(pod_limit_range(max="1"),),
        want=("100m", "200m"),
    ),
    Case(
        id="a maximum for pods: an init container before the sidecar takes nothing from it",
        app=LIMITED_APP,
        init=(LIMITED_MIGRATE, LIMITED_PROXY),
        limit_ranges=(pod_limit_range(max="1"),),
        want=("100m", "500m"),
    ),
    Case(
        id="a maximum for pods: a sidecar that isn't recommended makes room (A29)",
        app=LIMITED_APP,
        init=(proxy("log", limited=True), LIMITED_PROXY, LIMITED_MIGRATE),
        targets=(("proxy", "500m"),),
        limit_ranges=(pod_limit_range(max="900m"),),
        want=("", "16m", "84m"),
    ),
    Case(
        id="a minimum for pods: reached at the start, so nothing is raised",
        app=LIMITED_APP,
        init=(LIMITED_PROXY, LIMITED_MIGRATE),
        targets=(("app", "10m"), ("proxy", "10m")),
        limit_ranges=(pod_limit_range(min="810m"),),
        want=("10m", "10m"),
    ),
    Case(
        id="a minimum for pods: reached by the pod that runs",
        app=LIMITED_APP,
        init=(LIMITED_PROXY, LIMITED_MIGRATE),
        targets=(("app", "10m"), ("proxy", "10m")),
        limit_ranges=(pod_limit_range(min="811m"),),
        want=("406m", "406m"),
    ),
    Case(
        id="a minimum for pods: what it raises stays below the maximum at the start",
        app=LIMITED_APP,
        init=(LIMITED_PROXY, LIMITED_MIGRATE),
        targets=(("app", "10m"), ("proxy", "10m")),
        limit_ranges=(pod_limit_range(min="900m", max="1"),),
        want=("450m", "200m"),
    ),
    Case(
        id="gate off, a maximum for pods: a sidecar counts beside the app",
        gate=False,
        app=LIMITED_APP,
        init=(LIMITED_PROXY,),
        targets=(("app", "2"), ("proxy", "2")),
        limit_ranges=(pod_limit_range(max="1"),),
        want=("900m",),
    ),
    Case(
        id="gate off, a minimum for pods: a sidecar counts beside the app",
        gate=False,
        app=LIMITED_APP,
        init=(LIMITED_PROXY,),
        targets=(("app", "10m"),),
        limit_ranges=(pod_limit_range(min="500m"),),
        want=("400m",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_requests_fit_into_each_phase(case: Case) -> None:
    found = case.admitted()
    assert tuple(cpu(each.requests) for each in found.containers) == case.want
    assert (cpu(found.pod_level.requests), cpu(found.pod_level.limits)) == case.want_whole


def test_a_boost_fits_into_each_phase_of_its_container() -> None:
    """The sidecar's boost is cut to what the init container leaves; the app's isn't cut."""
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=4))
    policy = ContainerPolicy(container_name="*", startup_boost=boost)
    given = Case(id="", want=(), whole=cpu_resources("1")).pod
    found = admitted_resources(given, vpa(policies=(policy,)), (), most_boost=ZERO)
    assert [cpu(each.requests) for each in found.containers] == ["400m", "200m"]


# The phases themselves


def phases(*init: Container) -> list[tuple[str, str]]:
    """Return the scaled containers of each phase, and the CPU requests of the others."""
    given = pod_with_init(*init, containers=(APP,))
    return [(" ".join(phase.scaled), cpu(phase.fixed.requests)) for phase in phases_of(given.spec)]


def test_plain_init_containers_beside_the_same_sidecars_are_one_phase() -> None:
    assert phases(MIGRATE, new_container("small", "1m"), proxy(), new_container("small", "2m")) == [
        ("", "800m"),
        ("proxy", "2m"),
        ("app proxy", ""),
    ]


def test_the_number_of_phases_is_bounded() -> None:
    """The last phases count as one, whose sum is never less than each of them needs."""
    init = [
        each
        for index in range(50)
        for each in (proxy(f"proxy-{index}"), new_container(f"migrate-{index}", f"{50 - index}m"))
    ]
    found = phases(*init)
    names = " ".join(f"proxy-{index}" for index in range(50))
    assert len(found) == 9
    assert found[0] == ("proxy-0", "50m")
    assert found[7] == (names, "43m")
    assert found[8] == (f"app {names}", "")


def test_changed_amounts_count_as_the_api_server_stores_them() -> None:
    """It stores no amounts below a milli-unit."""
    given = pod_with_init(proxy(), MIGRATE, containers=(APP,))
    changed = vpa(
        recommendations=(
            recommendation("app", target={"cpu": "700100u"}),
            recommendation("proxy", target={"cpu": "200900u"}),
        )
    )
    wanted = admitted_resources(given, changed, ()).containers
    names = [each.name for each in scaled_specs(given)]
    amounts = pod_amounts(given.spec, changed=dict(zip(names, wanted, strict=True)))
    assert cpu(amounts.running.requests) == "902m"
    assert cpu(amounts.inside.requests) == "1001m"
