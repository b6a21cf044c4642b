"""The sums of a pod, as functions of the targets of its containers."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.api.core import PodSpec
from common.recommendation.pod_amounts import pod_amounts
from common.resources import CPU, MEMORY, parse_quantities
from common.scheduling.pod_sum import Numbers, PhaseSum, PodSum
from recommender.estimate.pod_sums import pod_sums

Json = dict[str, Any]


def container(name: str, *, limits: Json | None = None, **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}}


def sums(
    *containers: Json,
    scaled: tuple[str, ...] = ("app",),
    fixed_limits: tuple[str, ...] = (),
    template: Json | None = None,
    **spec: Any,
) -> Mapping[str, PodSum]:
    def decoded(given_: Json) -> PodSpec:
        return msgspec.convert(given_, PodSpec)

    amounts = pod_amounts(decoded({"containers": containers, **spec}))
    whole = pod_amounts(decoded({"containers": [template] if template else []}))
    return pod_sums(
        amounts,
        {CPU: scaled, MEMORY: scaled},
        overhead=parse_quantities(spec.get("overhead")),
        fixed_limits=fixed_limits,
        template={each.name: each for each in whole.all_containers},
    )


APP = container("app", cpu="100m", limits={"cpu": "200m"})
FIXED = container("fixed", cpu="30m", limits={"cpu": "40m"})
SIDECAR = container("proxy", cpu="50m") | {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod", "requests", "limits"),
    [
        pytest.param(sums(APP), 500, 1000, id="a limit keeps its ratio to the request"),
        pytest.param(sums(APP, FIXED), 530, 1040, id="other containers keep what they have"),
        pytest.param(
            sums(APP, fixed_limits=("app",)), 500, 200, id="RequestsOnly keeps the limit, too"
        ),
        pytest.param(
            sums(APP, template=container("app", cpu="100m", limits={"cpu": "300m"})),
            500,
            1500,
            id="the ratio is that of the template",
        ),
        pytest.param(
            sums(APP, template=container("app", cpu="100m")),
            500,
            1000,
            id="unless it has no limit, which a LimitRange may set",
        ),
        pytest.param(
            sums(container("app", cpu="0", limits={"cpu": "200m"})),
            500,
            500,
            id="a limit without a request follows the target as it is",
        ),
        pytest.param(sums(container("app", cpu="100m")), 500, 0, id="no limit"),
        pytest.param(
            sums(container("app", cpu="100m"), overhead={"cpu": "7m"}),
            507,
            0,
            id="overhead doesn't count in limits without any",
        ),
        pytest.param(sums(APP, overhead={"cpu": "7m"}), 507, 1007, id="overhead counts in both"),
        pytest.param(
            sums(APP, initContainers=[container("first", cpu="900m", limits={"cpu": "900m"})]),
            900,
            1000,
            id="an init container that needs more than the others",
        ),
        pytest.param(
            sums(APP, initContainers=[SIDECAR], scaled=("app", "proxy")),
            550,
            1000,
            id="a scaled container without a target keeps its request",
        ),
        pytest.param(
            sums(APP, resources={"requests": {"cpu": "800m"}, "limits": {"cpu": "900m"}}),
            800,
            900,
            id="pod-level resources replace the sum",
        ),
        pytest.param(sums(APP, scaled=()), 100, 200, id="nothing is scaled"),
    ],
)
def test_sums_with_a_target(pod: Mapping[str, PodSum], requests: int, limits: int) -> None:
    targets = {"app": 500}

    assert pod["requests.cpu"].of(targets) == requests
    assert pod["limits.cpu"].of(targets) == limits


def test_memory_is_counted_in_bytes() -> None:
    pod = sums(container("app", memory="1Gi", limits={"memory": "2Gi"}))

    assert pod["limits.memory"].of({"app": 3}) == 6
    assert pod["requests.memory"].of({}) == 1 << 30


HALVES = PodSum(
    (PhaseSum(0, dict.fromkeys(("a", "b"), sums(APP)["limits.cpu"].phases[0].ratios["app"])),)
)


@pytest.mark.parametrize(
    ("pod", "most", "minimums", "lowered"),
    [
        pytest.param(sums(APP)["requests.cpu"], 500, {}, {"app": 500}, id="the sum just fits"),
        pytest.param(sums(APP)["requests.cpu"], 499, {}, {"app": 499}, id="one millicore too much"),
        pytest.param(sums(APP)["limits.cpu"], 1000, {}, {"app": 500}, id="the limit just fits"),
        pytest.param(
            sums(APP)["limits.cpu"], 999, {}, {"app": 499}, id="the limit decides on the request"
        ),
        pytest.param(
            sums(APP, FIXED)["requests.cpu"], 130, {}, {"app": 100}, id="fixed containers stay"
        ),
        pytest.param(
            sums(APP, FIXED)["requests.cpu"], 30, {"app": 20}, {"app": 20}, id="a minimum is kept"
        ),
        pytest.param(
            sums(APP)["limits.cpu"], 10, {"app": 20}, {"app": 20}, id="a minimum of the request"
        ),
        pytest.param(
            sums(APP, initContainers=[container("first", cpu="900m")])["requests.cpu"],
            800,
            {"app": 20},
            {"app": 500},
            id="an init container alone lowers no target",
        ),
        pytest.param(
            sums(APP, resources={"requests": {"cpu": "800m"}})["requests.cpu"],
            100,
            {},
            {"app": 500},
            id="pod-level resources lower no target",
        ),
    ],
)
def test_targets_are_lowered_to_a_bound(
    pod: PodSum, most: int, minimums: Numbers, lowered: Numbers
) -> None:
    assert pod.capped({"app": 500}, minimums, most) == lowered


def test_containers_are_lowered_in_proportion() -> None:
    assert HALVES.capped({"a": 300, "b": 100}, {}, 400) == {"a": 150, "b": 50}


AMOUNTS = st.integers(1, 100_000)


@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1),
    st.fractions(min_value=1, max_value=9),
    AMOUNTS,
)
def test_a_lowered_pod_fits_or_is_at_its_minimums(
    containers: Mapping[str, tuple[int, int, int]], ratio: Any, most: int
) -> None:
    targets = {name: target for name, (target, _, _) in containers.items()}
    minimums = {name: least for name, (_, least, _) in containers.items()}
    pod = PodSum((PhaseSum(7, dict.fromkeys(containers, ratio)),))

    lowered = pod.capped(targets, minimums, most)

    floors = {name: min(target, minimums[name]) for name, target in targets.items()}
    assert all(floors[name] <= lowered[name] <= targets[name] for name in targets)
    assert pod.of(lowered) <= max(most, pod.of(floors))
