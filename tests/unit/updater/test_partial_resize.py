"""Partial resizes: the largest step of a resize that a node can hold (X102, X138)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.patches import Operation
from common.recommendation.container_resources import WantedResources
from common.recommendation.processing import ContainerAmounts
from common.recommendation.qos import qos_class
from common.resources import parse_quantities
from updater.resize.partial_resize import (
    PartialResize,
    StepRules,
    plan_part,
    share,
    total_request,
)
from updater.snapshot.live_node import NodeCapacity

Amounts = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ContainerCase:
    """A container: its resources, its targets, and its spec."""

    has: Amounts
    wants: Amounts = field(default_factory=dict)
    limits: Amounts | None = None
    wants_limits: Amounts = field(default_factory=dict)
    asks: Amounts | None = None  # in the spec; None: like ``has``
    asks_limits: Amounts | None = None


def pod(
    *containers: ContainerCase, init: tuple[Container, ...] = (), overhead: Amounts | None = None
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web-0"),
        spec=PodSpec(
            containers=tuple(
                Container(
                    name=f"c{index}",
                    resources=ResourceRequirements(
                        requests=one.has if one.asks is None else one.asks,
                        limits=one.limits if one.asks_limits is None else one.asks_limits,
                    ),
                )
                for index, one in enumerate(containers)
            ),
            init_containers=init,
            overhead=overhead,
        ),
        status=PodStatus(
            container_statuses=tuple(
                ContainerStatus(
                    name=f"c{index}",
                    resources=ResourceRequirements(requests=one.has, limits=one.limits),
                    allocated_resources=one.has,
                )
                for index, one in enumerate(containers)
            ),
        ),
    )


def part(
    *containers: ContainerCase,
    node: Amounts | None,
    init: tuple[Container, ...] = (),
    overhead: Amounts | None = None,
    min_allowed: Amounts | None = None,
    min_change: float = 0.1,
) -> PartialResize | None:
    given = pod(*containers, init=init, overhead=overhead)
    wanted = tuple(
        WantedResources(
            requests=parse_quantities(one.wants), limits=parse_quantities(one.wants_limits)
        )
        for one in containers
    )
    names = [each.name for each in given.spec.containers]
    amounts = {
        name: ContainerAmounts(
            name=name, target=each.requests, lower_bound=each.requests, upper_bound=each.requests
        )
        for name, each in zip(names, wanted, strict=True)
    }
    capacity = None
    if node is not None:
        capacity = NodeCapacity(node="node", allocatable=parse_quantities(node))
    least = {} if min_allowed is None else parse_quantities(min_allowed)
    rules = StepRules(min_change=min_change, min_allowed=dict.fromkeys(names, least))
    return plan_part(given, wanted, names, containers=amounts, capacity=capacity, rules=rules)


def patched_values(found: PartialResize | None) -> dict[str, str] | None:
    """Return the patched values by container and resource, or None."""
    if found is None:
        return None
    return {_short(each): str(each.value) for each in found.plan.operations}


def _short(operation: Operation) -> str:
    _, _, index, _, kind, resource = operation.path.strip("/").split("/")
    return f"c{index} {kind} {resource}"


def rest(found: PartialResize | None) -> dict[str, dict[str, str]] | None:
    if found is None:
        return None
    return {
        name: {resource: str(amount) for resource, amount in amounts.items()}
        for name, amounts in found.rest.items()
    }


NODE = {"cpu": "4", "memory": "8Gi"}
SMALL = ContainerCase(has={"cpu": "1", "memory": "1Gi"})


def wants(has: Amounts, wanted: Amounts) -> ContainerCase:
    return ContainerCase(has=has, wants=wanted)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    containers: tuple[ContainerCase, ...]
    sent: dict[str, str] | None = None  # None: there is no partial resize
    rest: dict[str, dict[str, str]] | None = None
    node: Amounts | None = field(default_factory=lambda: NODE)
    init: tuple[Container, ...] = ()
    overhead: Amounts | None = None
    min_allowed: Amounts | None = None
    min_change: float = 0.1


ONE = {"cpu": "1", "memory": "1Gi"}
HUGE = Container(
    name="init", resources=ResourceRequirements(requests={"cpu": "100m", "memory": "7Gi"})
)
SIDECAR = Container(
    name="log",
    restart_policy="Always",
    resources=ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"}),
)
CASES = [
    Case(
        id="too much cpu, memory that fits",
        containers=(wants(ONE, {"cpu": "5", "memory": "2Gi"}),),
        sent={"c0 requests cpu": "4", "c0 requests memory": "2Gi"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="a neighbour that lacks memory",
        containers=(wants(ONE, {"cpu": "9"}), wants(ONE, {"memory": "3Gi"})),
        sent={"c0 requests cpu": "3", "c1 requests memory": "3Gi"},
        rest={"c0": {"cpu": "9"}},
    ),
    Case(
        id="a decrease",
        containers=(wants(ONE, {"cpu": "9"}), wants(ONE, {"cpu": "500m"})),
        sent={"c0 requests cpu": "3500m", "c1 requests cpu": "500m"},
        rest={"c0": {"cpu": "9"}},
    ),
    Case(
        id="containers share the room equally, in whole millicores",
        containers=(
            wants({"cpu": "1"}, {"cpu": "3"}),
            wants({"cpu": "1"}, {"cpu": "4"}),
            wants({"cpu": "1"}, {"cpu": "5"}),
        ),
        sent={"c0 requests cpu": "1333m", "c1 requests cpu": "1333m", "c2 requests cpu": "1334m"},
        rest={"c0": {"cpu": "3"}, "c1": {"cpu": "4"}, "c2": {"cpu": "5"}},
    ),
    Case(
        id="a container that lacks little gets all of it",
        containers=(wants(ONE, {"cpu": "3"}), wants(ONE, {"cpu": "2"})),
        sent={"c0 requests cpu": "2", "c1 requests cpu": "2"},
        rest={"c0": {"cpu": "3"}},
    ),
    Case(
        id="whole MiB of memory",
        node={"cpu": "4", "memory": "4195Mi"},
        containers=(wants(ONE, {"memory": "9Gi"}), wants(ONE, {"memory": "4Gi"})),
        sent={"c0 requests memory": "2097Mi", "c1 requests memory": "2097Mi"},
        rest={"c0": {"memory": "9Gi"}, "c1": {"memory": "4Gi"}},
    ),
    Case(
        id="one millicore more than the allocatable",
        containers=(wants(ONE, {"cpu": "3"}), wants(ONE, {"cpu": "1001m"})),
        sent={"c0 requests cpu": "2999m", "c1 requests cpu": "1001m"},
        rest={"c0": {"cpu": "3"}},
    ),
    Case(
        id="exactly a tenth of what is missing",
        containers=(wants({"cpu": "3"}, {"cpu": "13"}),),
        sent={"c0 requests cpu": "4"},
        rest={"c0": {"cpu": "13"}},
    ),
    Case(
        id="less than a tenth of what is missing is too small for a step",
        containers=(wants({"cpu": "3"}, {"cpu": "13001m"}),),
    ),
    Case(
        id="exactly the update threshold",
        containers=(wants({"cpu": "3200m"}, {"cpu": "5"}),),
        min_change=0.25,
        sent={"c0 requests cpu": "4"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="less than the update threshold is too small for a step",
        containers=(wants({"cpu": "3201m"}, {"cpu": "5"}),),
        min_change=0.25,
    ),
    Case(
        id="no room, and the other resource grows by exactly the update threshold",
        containers=(wants({"cpu": "4", "memory": "1000Mi"}, {"cpu": "5", "memory": "1100Mi"}),),
        sent={"c0 requests cpu": "4", "c0 requests memory": "1100Mi"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="no room, and the other resource grows by less than the update threshold",
        containers=(wants({"cpu": "4", "memory": "1000Mi"}, {"cpu": "5", "memory": "1099Mi"}),),
    ),
    Case(
        id="no room, and the other resource shrinks by exactly the update threshold",
        containers=(wants({"cpu": "4", "memory": "1000Mi"}, {"cpu": "5", "memory": "900Mi"}),),
        sent={"c0 requests cpu": "4", "c0 requests memory": "900Mi"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="no room, and the other resource shrinks by less than the update threshold",
        containers=(wants({"cpu": "4", "memory": "1000Mi"}, {"cpu": "5", "memory": "901Mi"}),),
    ),
    Case(
        id="no room, and the other resource gets its first request",
        containers=(wants({"cpu": "4"}, {"cpu": "5", "memory": "1Mi"}),),
        sent={"c0 requests memory": "1Mi"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="with a step of the lacking resource, every other change is sent",
        containers=(wants(ONE, {"cpu": "5", "memory": "1025Mi"}),),
        sent={"c0 requests cpu": "4", "c0 requests memory": "1025Mi"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="a step to exactly minAllowed",
        containers=(wants(ONE, {"cpu": "5"}),),
        min_allowed={"cpu": "4"},
        sent={"c0 requests cpu": "4"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="no step to less than minAllowed",
        containers=(wants(ONE, {"cpu": "5"}),),
        min_allowed={"cpu": "4001m"},
    ),
    Case(
        id="a later decrease makes room for an earlier increase",
        containers=(
            wants(ONE, {"cpu": "3500m"}),
            wants(ONE, {"cpu": "500m"}),
            wants({"cpu": "0", "memory": "1Gi"}, {"memory": "9Gi"}),
        ),
        sent={
            "c0 requests cpu": "3500m",
            "c1 requests cpu": "500m",
            "c2 requests memory": "6Gi",
        },
        rest={"c2": {"memory": "9Gi"}},
    ),
    Case(id="no change fits", containers=(wants({"cpu": "4"}, {"cpu": "5"}),)),
    Case(id="all changes fit, so size is not the reason", containers=(wants(ONE, {"cpu": "2"}),)),
    Case(id="no targets", containers=(SMALL,)),
    Case(
        id="unknown node: only reductions",
        node=None,
        containers=(wants(ONE, {"cpu": "2", "memory": "512Mi"}),),
        sent={"c0 requests cpu": "1", "c0 requests memory": "512Mi"},
        rest={"c0": {"cpu": "2"}},
    ),
    Case(
        id="a node that is smaller than the pod refuses reductions, too",
        node={"cpu": "500m", "memory": "8Gi"},
        containers=(wants(ONE, {"cpu": "2", "memory": "512Mi"}),),
    ),
    Case(
        id="an infeasible request in the spec is replaced by the step",
        containers=(
            ContainerCase(
                has=ONE,
                wants={"cpu": "9", "memory": "2Gi"},
                asks={"cpu": "9", "memory": "2Gi"},
            ),
        ),
        sent={"c0 requests cpu": "4", "c0 requests memory": "2Gi"},
        rest={"c0": {"cpu": "9"}},
    ),
    Case(
        id="the partial resize is done",
        containers=(
            ContainerCase(has={"cpu": "4", "memory": "2Gi"}, wants={"cpu": "9", "memory": "2Gi"}),
        ),
    ),
    Case(
        id="an added request can't be removed",
        node={"cpu": "0", "memory": "8Gi"},
        containers=(
            ContainerCase(
                has={"memory": "1Gi"},
                wants={"cpu": "9", "memory": "2Gi"},
                asks={"cpu": "9", "memory": "2Gi"},
            ),
        ),
    ),
    Case(
        id="request and limit change together",
        containers=(
            ContainerCase(
                has=ONE,
                limits={"cpu": "2", "memory": "2Gi"},
                wants={"cpu": "9", "memory": "2Gi"},
                wants_limits={"cpu": "18", "memory": "4Gi"},
            ),
        ),
        sent={
            "c0 requests cpu": "4",
            "c0 requests memory": "2Gi",
            "c0 limits cpu": "8",
            "c0 limits memory": "4Gi",
        },
        rest={"c0": {"cpu": "9"}},
    ),
    Case(
        id="a Guaranteed pod stays Guaranteed",
        containers=(
            ContainerCase(
                has=ONE,
                limits=ONE,
                wants={"cpu": "9", "memory": "2Gi"},
                wants_limits={"cpu": "9", "memory": "2Gi"},
            ),
        ),
        sent={
            "c0 requests cpu": "4",
            "c0 requests memory": "2Gi",
            "c0 limits cpu": "4",
            "c0 limits memory": "2Gi",
        },
        rest={"c0": {"cpu": "9"}},
    ),
    Case(
        id="a native sidecar counts beside the containers",
        init=(SIDECAR,),
        containers=(wants(ONE, {"cpu": "3001m", "memory": "2Gi"}),),
        sent={"c0 requests cpu": "3", "c0 requests memory": "2Gi"},
        rest={"c0": {"cpu": "3001m"}},
    ),
    Case(
        id="a plain init container does not count",
        init=(HUGE,),
        containers=(wants(ONE, {"cpu": "5", "memory": "8Gi"}),),
        sent={"c0 requests cpu": "4", "c0 requests memory": "8Gi"},
        rest={"c0": {"cpu": "5"}},
    ),
    Case(
        id="the overhead of the pod counts",
        overhead={"cpu": "1"},
        containers=(wants(ONE, {"cpu": "3001m", "memory": "2Gi"}),),
        sent={"c0 requests cpu": "3", "c0 requests memory": "2Gi"},
        rest={"c0": {"cpu": "3001m"}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan_part(case: Case) -> None:
    found = part(
        *case.containers,
        node=case.node,
        init=case.init,
        overhead=case.overhead,
        min_allowed=case.min_allowed,
        min_change=case.min_change,
    )
    plan_sent = patched_values(found)
    assert rest(found) == case.rest
    if plan_sent is None or case.sent is None:
        assert plan_sent == case.sent
        return
    unchanged = {key: value for key, value in plan_sent.items() if key not in case.sent}
    assert {key: plan_sent[key] for key in case.sent} == case.sent
    assert all(_is_as_before(key, value, case.containers) for key, value in unchanged.items())


def _is_as_before(key: str, value: str, containers: tuple[ContainerCase, ...]) -> bool:
    name, kind, resource = key.split()
    one = containers[int(name[1:])]
    has = one.has if kind == "requests" else one.limits or {}
    return parse_quantities(has)[resource] == parse_quantities({"": value})[""]


def test_a_pod_with_pod_level_resources_has_no_partial_resize() -> None:
    given = pod(wants(ONE, {"cpu": "5", "memory": "2Gi"}))
    spec = PodSpec(containers=given.spec.containers, resources=ResourceRequirements(requests=ONE))
    whole = Pod(metadata=given.metadata, spec=spec, status=given.status)
    wanted = (WantedResources(requests=parse_quantities({"cpu": "5", "memory": "2Gi"})),)
    capacity = NodeCapacity(node="node", allocatable=parse_quantities(NODE))
    rules = StepRules(min_change=0.1, min_allowed={})
    part = plan_part(whole, wanted, ["c0"], containers={}, capacity=capacity, rules=rules)
    assert part is None


@pytest.mark.parametrize("seed", range(500))
def test_every_partial_resize_is_valid(seed: int) -> None:
    """A partial resize fits, keeps the QoS class, and has no request above its limit."""
    random = Random(seed)
    containers = tuple(_drawn(random) for _ in range(random.randint(1, 4)))
    init = tuple(each for each in (HUGE, SIDECAR) if random.random() < 0.2)
    overhead = {"cpu": "100m"} if random.random() < 0.2 else None
    found = part(*containers, node=NODE, init=init, overhead=overhead)
    if found is None:
        return
    before, after = pod(*containers, init=init, overhead=overhead), {}
    values = patched_values(found) or {}
    for index, container in enumerate(before.spec.containers):
        assert container.resources is not None
        kinds = {}
        for kind in ("requests", "limits"):
            spec = dict(getattr(container.resources, kind) or {})
            prefix = f"c{index} {kind} "
            changes = {
                key.removeprefix(prefix): value
                for key, value in values.items()
                if key.startswith(prefix)
            }
            kinds[kind] = parse_quantities(spec | changes)
        after[container.name] = kinds
        for resource, limit in kinds["limits"].items():
            assert kinds["requests"][resource] <= limit
    allocatable = parse_quantities(NODE)
    requests = {name: each["requests"] for name, each in after.items()}
    for resource, bound in allocatable.items():
        assert total_request(before, requests, resource) <= bound
    assert qos_class(before.spec)
    assert found.plan.changes
    for index, one in enumerate(containers):
        for resource, amount in parse_quantities(one.wants).items():
            left = found.rest.get(f"c{index}", {})
            given = requests[f"c{index}"][resource]
            if resource in left:
                assert parse_quantities(one.has)[resource] <= given < amount
            else:
                assert given == amount


def _drawn(random: Random) -> ContainerCase:
    has = {"cpu": f"{random.randint(1, 9)}00m", "memory": f"{random.randint(1, 9)}00Mi"}
    wanted = {
        "cpu": f"{random.randint(1, 60)}00m",
        "memory": f"{random.randint(1, 120)}00Mi",
    }
    kept = [name for name in wanted if random.random() < 0.8]
    wanted = {name: wanted[name] for name in kept}
    factor = random.choice((0, 1, 2))
    pending = random.random() < 0.3
    return ContainerCase(
        has=has,
        wants=wanted,
        limits=_times(has, factor) if factor else None,
        wants_limits=_times(wanted, factor) if factor else {},
        asks=has | wanted if pending else None,
        asks_limits=_times(has | wanted, factor) if pending and factor else None,
    )


def _times(amounts: Amounts, factor: int) -> dict[str, str]:
    return {
        name: f"{int(value.removesuffix('m').removesuffix('Mi')) * factor}"
        + ("m" if name == "cpu" else "Mi")
        for name, value in amounts.items()
    }


# Steps


@given(
    lacks=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 10**13), min_size=1),
    room=st.integers(-10, 10**14),
    more=st.integers(0, 10**13),
)
def test_shares_stay_within_the_room_and_what_is_lacking_and_grow_with_the_room(
    lacks: dict[str, int], room: int, more: int
) -> None:
    found, larger = share(lacks, room), share(lacks, room + more)
    assert sum(found.values()) <= max(room, 0)
    assert all(0 <= found[name] <= lack for name, lack in lacks.items())
    assert all(found[name] <= larger[name] for name in lacks)
    assert room < sum(lacks.values()) or found == lacks


@given(
    has=st.integers(1, 4000),
    lacks=st.lists(st.integers(1, 20_000), min_size=1, max_size=3),
    rooms=st.lists(st.integers(0, 3000), min_size=1, max_size=6),
)
def test_repeated_steps_reach_the_target_and_never_exceed_the_node(
    has: int, lacks: list[int], rooms: list[int]
) -> None:
    """The node grows from step to step; in the end it has room for everything."""
    present = [has] * len(lacks)
    targets = [has + lack for lack in lacks]
    bound = sum(present)
    for room in rooms:
        bound += room
        found = part(
            *(
                wants({"cpu": f"{now}m"}, {"cpu": f"{target}m"})
                for now, target in zip(present, targets, strict=True)
            ),
            node={"cpu": f"{bound}m"},
        )
        if found is None:
            continue
        after = [each["cpu"].milli for each in found.requests.values()]
        assert sum(after) <= bound
        assert all(now <= then for now, then in zip(present, after, strict=True))
        assert all(then <= target for then, target in zip(after, targets, strict=True))
        missing = sum(targets) - sum(present)
        assert 10 * (sum(after) - sum(present)) >= missing
        present = after
    whole = part(
        *(
            wants({"cpu": f"{now}m"}, {"cpu": f"{target}m"})
            for now, target in zip(present, targets, strict=True)
        ),
        node={"cpu": f"{sum(targets)}m"},
    )
    assert whole is None, "everything fits, so the whole resize is sent"


def test_the_detail_of_a_step_has_the_numbers_of_step_and_rest() -> None:
    found = part(wants(ONE, {"cpu": "5", "memory": "9Gi"}), node=NODE)
    assert found is not None
    assert found.detail == (
        "container c0: cpu 4 of 5 now, 1 more when the node has room, "
        "memory 8Gi of 9Gi now, 1Gi more when the node has room"
    )
