"""The largest node that a NodePool could make, and what its kubelet leaves to pods."""

import re

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from common.api.meta import ObjectMeta
from common.quantity import MAX_INT64
from common.runtime.object_errors import Boundary, ObjectErrors
from common.scheduling.eligibility import is_eligible
from common.scheduling.room import Room
from node_objects import GIB, MIB, node_pool, rules
from recommender.nodes.autoscalers import Autoscalers, makeable_shapes
from recommender.nodes.node_pools import NodePool, UnreadPool, allocatable, shape_of_pool
from recommender.nodes.shape_flag import ShapeFlag, parse_shape

CPU, MEMORY = "karpenter.k8s.aws/instance-cpu", "karpenter.k8s.aws/instance-memory"
BOTH = ((CPU, "In", ("4", "16", "8")), (MEMORY, "Lt", ("65537",)))


def left(cpu: int, memory: int) -> Room:
    """Return what pods can request on an instance of Karpenter with this many cores and MiB."""
    room = allocatable(Room(cpu * 1000, memory * MIB * 925 // 1000, 0))
    return Room(room.cpu, room.memory, MAX_INT64)


SIZES = [
    ("In: the largest; Lt: one less", BOTH, None, left(16, 65536), ""),
    ("Lte", ((CPU, "Lte", ("16",)), (MEMORY, "Lte", ("65536",))), None, left(16, 65536), ""),
    ("the smaller of two bounds", (*BOTH, (CPU, "Lt", ("9",))), None, left(8, 65536), ""),
    (
        "the keys of Azure",
        (
            ("karpenter.azure.com/sku-cpu", "In", ("16",)),
            ("karpenter.azure.com/sku-memory", "In", ("65536",)),
        ),
        None,
        left(16, 65536),
        "",
    ),
    (
        "the keys of EKS Auto Mode",
        (
            ("eks.amazonaws.com/instance-cpu", "In", ("16",)),
            ("eks.amazonaws.com/instance-memory", "In", ("65536",)),
        ),
        None,
        left(16, 65536),
        "",
    ),
    (
        "limits of the pool are smaller",
        BOTH,
        {"cpu": "2", "memory": "4Gi"},
        allocatable(Room(2000, 4 * GIB, MAX_INT64)),
        "",
    ),
    ("limits of the pool are larger", BOTH, {"cpu": "1000", "memory": "4Ti"}, left(16, 65536), ""),
    (
        "no bound of CPU",
        BOTH[1:],
        None,
        Room(MAX_INT64, left(1, 65536).memory, MAX_INT64),
        "NodePool general does not bound the cpu of its nodes",
    ),
    (
        "Gt is no bound",
        ((CPU, "Gt", ("4",)), BOTH[1]),
        None,
        Room(MAX_INT64, left(1, 65536).memory, MAX_INT64),
        "NodePool general does not bound the cpu of its nodes",
    ),
    (
        "no bound at all",
        (),
        None,
        Room(MAX_INT64, MAX_INT64, MAX_INT64),
        "NodePool general does not bound the cpu and the memory of its nodes",
    ),
    (
        "limits alone leave it a guess",
        (),
        {"cpu": "2", "memory": "4Gi"},
        allocatable(Room(2000, 4 * GIB, MAX_INT64)),
        "NodePool general does not bound the cpu and the memory of its nodes",
    ),
    (
        "more digits than can be parsed",
        ((CPU, "In", ("9" * 5000,)), BOTH[1]),
        None,
        Room(MAX_INT64, left(1, 65536).memory, MAX_INT64),
        "NodePool general does not bound the cpu of its nodes",
    ),
    (
        "no number",
        ((CPU, "In", ("many",)), BOTH[1]),
        None,
        Room(MAX_INT64, left(1, 65536).memory, MAX_INT64),
        "NodePool general does not bound the cpu of its nodes",
    ),
]


@pytest.mark.parametrize(
    ("requirements", "limits", "room", "guess"),
    [pytest.param(*case, id=name) for name, *case in SIZES],
)
def test_the_size_of_nodes(
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...],
    limits: dict[str, str] | None,
    room: Room,
    guess: str,
) -> None:
    shape = shape_of_pool(node_pool(*requirements, limits=limits))
    assert (shape.room, shape.guess) == (room, guess)


RESERVED = [  # documented examples of GKE
    ("one core and 2 GiB", Room(1000, 2 * GIB), Room(940, 2 * GIB - 512 * MIB - 100 * MIB)),
    ("four cores and 16 GiB", Room(4000, 16 * GIB), Room(3920, 16 * GIB - 2662 * MIB - 100 * MIB)),
    (
        "16 cores and 128 GiB",
        Room(16000, 128 * GIB),
        Room(15890, 128 * GIB - 9544 * MIB - 100 * MIB),
    ),
]


@pytest.mark.parametrize(
    ("capacity", "want"), [pytest.param(*case, id=name) for name, *case in RESERVED]
)
def test_what_the_kubelet_reserves(capacity: Room, want: Room) -> None:
    found = allocatable(capacity)
    assert found.cpu == want.cpu
    assert abs(found.memory - want.memory) < MIB


POOL = node_pool(
    ("disk", "In", ("ssd",)),
    ("zone", "In", ("a", "b")),
    ("team", "Exists", ()),
    ("gpu", "DoesNotExist", ()),
    labels={"tier": "web"},
    taints=[{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
)
TOLERATION = {"key": "dedicated", "operator": "Exists"}

MATCHES = [
    ("the name of the pool", {"karpenter.sh/nodepool": "general"}, True),
    ("another pool", {"karpenter.sh/nodepool": "other"}, False),
    ("a label of the template", {"tier": "web"}, True),
    ("a single value", {"disk": "ssd"}, True),
    ("another value", {"disk": "hdd"}, False),
    ("one of several values", {"zone": "b"}, True),
    ("none of several values", {"zone": "c"}, False),
    ("any value", {"team": "blue"}, True),
    ("a label that must not exist", {"gpu": "yes"}, False),
    ("a label that the kubelet sets", {"kubernetes.io/arch": "arm64"}, True),
    ("a label that the provider sets", {"karpenter.k8s.aws/instance-family": "m5"}, True),
    ("a label that nothing sets", {"color": "red"}, False),
]


@pytest.mark.parametrize(
    ("selector", "want"), [pytest.param(*case, id=name) for name, *case in MATCHES]
)
def test_pods_that_a_pool_makes_nodes_for(
    selector: dict[str, str],
    want: bool,  # noqa: FBT001 - a column of the table
) -> None:
    traits = shape_of_pool(POOL).traits
    assert is_eligible(rules(nodeSelector=selector, tolerations=[TOLERATION]), traits) is want


def test_taints_of_a_pool() -> None:
    assert not is_eligible(rules(), shape_of_pool(POOL).traits)


BOUNDED, OPEN = node_pool(*BOTH, name="bounded"), node_pool(name="open")
FLAG = parse_shape("cpu=64,memory=256Gi")
STATUS = "A cluster autoscaler reports"
UNREAD = "A cluster autoscaler may make"

UNREAD_POOL = "NodePool odd may make a larger node, because it can't be read"


def boundary(name: str) -> Boundary:
    errors = ObjectErrors("recommender", CollectorRegistry())
    return errors.around("node_pool", "NodePool", "", name)


MAKEABLE = [
    ("no autoscaler", False, (), (), []),
    ("a cluster autoscaler", True, (), (), [STATUS]),
    ("its status can't be read", None, (), (), [UNREAD]),
    ("pools", False, (BOUNDED, OPEN), (), ["NodePool bounded", "NodePool open"]),
    ("pools can't be read", False, None, (), ["Karpenter may make"]),
    (
        "one of the pools can't be read",
        False,
        (BOUNDED, UnreadPool("odd")),
        (),
        ["NodePool bounded", UNREAD_POOL],
    ),
    (
        "a flag replaces a pool that can't be read",
        False,
        (UnreadPool("odd"),),
        (FLAG,),
        ["--node-shape=cpu=64,memory=256Gi"],
    ),
    (
        "a flag replaces all guesses",
        True,
        (BOUNDED, OPEN),
        (FLAG,),
        ["NodePool bounded", "--node-shape=cpu=64,memory=256Gi"],
    ),
    (
        "a flag replaces what can't be read",
        None,
        None,
        (FLAG,),
        ["--node-shape=cpu=64,memory=256Gi"],
    ),
]


@pytest.mark.parametrize(
    ("reports", "pools", "flags", "titles"),
    [pytest.param(*case, id=name) for name, *case in MAKEABLE],
)
def test_nodes_that_could_be_made(
    reports: bool | None,  # noqa: FBT001 - a column of the table
    pools: tuple[NodePool | UnreadPool, ...] | None,
    flags: tuple[ShapeFlag, ...],
    titles: list[str],
) -> None:
    known = Autoscalers(reports=reports, node_pools=pools)
    found = makeable_shapes(known, flags, boundary)
    assert len(found) == len(titles)
    for shape, title in zip(found, titles, strict=True):
        assert shape.title.startswith(title)
        assert bool(shape.guess) is ("open" in title or "autoscaler" in title or "may" in title)


def test_a_pool_that_causes_an_error_may_make_any_node(caplog: pytest.LogCaptureFixture) -> None:
    broken = msgspec.structs.replace(OPEN, metadata=ObjectMeta(name="odd"), spec=None)
    known = Autoscalers(reports=False, node_pools=(BOUNDED, broken))
    bounded, odd = makeable_shapes(known, (), boundary)
    assert (bounded.guess, odd.guess) == ("", UNREAD_POOL)
    assert is_eligible(rules(nodeSelector={"anything": "fits"}), odd.traits)
    assert [record.__dict__["object"] for record in caplog.records] == ["NodePool odd"]


HUGE = [
    pytest.param("9" * 400, id="above every amount"),
    pytest.param(str(2**63), id="one above the largest"),
    pytest.param(str(2**63 - 1), id="the largest"),
]


@pytest.mark.parametrize("amount", HUGE)
def test_a_huge_size_is_the_largest_amount(amount: str) -> None:
    shape = shape_of_pool(node_pool((CPU, "In", (amount,)), (MEMORY, "In", (amount,))))
    assert (shape.room, shape.guess) == (Room(MAX_INT64, MAX_INT64, MAX_INT64), "")


SHAPES = [
    ("CPU and memory", "cpu=1500m,memory=2Gi", Room(1500, 2 * GIB, MAX_INT64)),
    ("a number of pods", "memory=2Gi,pods=30,cpu=2", Room(2000, 2 * GIB, 30)),
]


@pytest.mark.parametrize(("text", "room"), [pytest.param(*case, id=name) for name, *case in SHAPES])
def test_a_shape_of_the_command_line(text: str, room: Room) -> None:
    assert parse_shape(text).room == room
    assert str(parse_shape(text)) == text


def test_labels_and_taints_of_the_command_line() -> None:
    text = "cpu=1,memory=1Gi,label=disk=ssd,label=a/b=,taint=k=v:NoSchedule,taint=x:NoExecute"
    traits = parse_shape(text).shape.traits
    assert traits.labels == {"disk": "ssd", "a/b": ""}
    assert [(each.key, each.value, each.effect) for each in traits.taints] == [
        ("k", "v", "NoSchedule"),
        ("x", "", "NoExecute"),
    ]
    assert traits.possible("kubernetes.io/arch") is None
    assert traits.possible("color") == (None,)


MISTAKES = [
    ("nothing", "", "no field=value"),
    ("no memory", "cpu=1", "memory is missing or 0"),
    ("no CPU", "cpu=0,memory=1Gi", "cpu is missing or 0"),
    ("no quantity", "cpu=x,memory=1Gi", "cpu: not a quantity"),
    ("negative", "cpu=-1,memory=1Gi", "cpu: "),
    ("twice", "cpu=1,cpu=2,memory=1Gi", "cpu is given twice"),
    ("no value", "cpu=1,memory=1Gi,pods", "'pods'"),
    ("an unknown field", "cpu=1,memory=1Gi,disk=ssd", "unknown field 'disk'"),
    ("a label without a value", "cpu=1,memory=1Gi,label=ssd", "label: 'ssd' is no key=value"),
    ("a taint without an effect", "cpu=1,memory=1Gi,taint=k=v", "taint: 'k=v' is no"),
    ("an unknown effect", "cpu=1,memory=1Gi,taint=k=v:Never", "NoSchedule, PreferNoSchedule"),
]


@pytest.mark.parametrize(
    ("text", "message"), [pytest.param(*case, id=name) for name, *case in MISTAKES]
)
def test_mistakes_on_the_command_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_shape(text)
