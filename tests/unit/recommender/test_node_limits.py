"""The limits that nodes set to the pods of VPAs."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import PodSpec
from common.labels import NOTHING
from common.runtime.object_errors import ObjectErrors
from common.scheduling.eligibility import ANYWHERE
from common.scheduling.pod_claims import PodShape
from fixed_clock import FixedClock
from node_objects import by_name, daemon_set, node, node_pool
from recommender.model.keys import VpaKey
from recommender.nodes.autoscalers import Autoscalers
from recommender.nodes.cap_mode import CAP_ANNOTATION, CapMode
from recommender.nodes.node_facts import NodeFacts
from recommender.nodes.node_shapes import DEPARTURE
from recommender.nodes.shape_flag import ShapeFlag, parse_shape
from recommender.publish.node_limits import NodeLimits
from recommender.publish.pod_limits import PodLimit
from recommender.sources.target_resolution import LoadedVpa, TargetResolution

NOW = datetime(2026, 1, 2, 12, 5, tzinfo=UTC)
POD = PodShape(ANYWHERE, PodSpec())
NO_AUTOSCALER = Autoscalers(reports=False, node_pools=())
NODES = by_name(node(cpu="4", memory="16Gi", labels={"node.kubernetes.io/instance-type": "m5"}))


def loaded(
    name: str = "web",
    *,
    kind: str = "Deployment",
    namespace: str = "shop",
    mode: str = "Recreate",
    annotation: str | None = None,
    recommended: Mapping[str, str] | None = None,
    controlled_by: str = "",
) -> LoadedVpa:
    container = {"containerName": "agent", "target": recommended}
    given: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {} if annotation is None else {CAP_ANNOTATION: annotation},
        },
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name},
            "updatePolicy": {"updateMode": mode},
        },
        "status": {
            "recommendation": {"containerRecommendations": [container] if recommended else []}
        },
    }
    return LoadedVpa(
        vpa=msgspec.convert(given, VerticalPodAutoscaler),
        resolution=TargetResolution(selector=NOTHING),
        controlled_by=controlled_by,
    )


@dataclass
class Cluster:
    """What is known of a cluster, and the limits that follow from it."""

    facts: NodeFacts
    mode: CapMode = CapMode.AUTO
    flags: tuple[ShapeFlag, ...] = ()
    vpas: dict[VpaKey, LoadedVpa] = field(default_factory=dict)
    clock: FixedClock = field(default_factory=lambda: FixedClock(NOW))

    def __post_init__(self) -> None:
        self.limits = NodeLimits(
            lambda: self.facts,
            mode=self.mode,
            flags=self.flags,
            clock=self.clock,
            errors=ObjectErrors("recommender", CollectorRegistry()),
        )

    def limit(self, one: LoadedVpa | None = None) -> PodLimit | None:
        found = one or loaded()
        meta = found.vpa.metadata
        key = VpaKey(meta.namespace, meta.name)
        self.limits.begin({**self.vpas, key: found})
        return self.limits.limit(key, found, POD)


def rooms(limit: PodLimit | None) -> list[tuple[int, bool]]:
    """Return the cores of each room, and whether it is known."""
    assert limit is not None
    return [(each.room.cpu // 1000, each.is_known) for each in limit.rooms]


MANY = 2**63 // 1000
STATUS = Autoscalers(reports=True, node_pools=())

MODES = [
    ("no autoscaler, auto", NO_AUTOSCALER, CapMode.AUTO, (), [(4, True)]),
    ("a cluster autoscaler, auto", STATUS, CapMode.AUTO, (), [(4, True), (MANY, False)]),
    ("a cluster autoscaler, always", STATUS, CapMode.ALWAYS, (), [(4, True)]),
    (
        "a cluster autoscaler, and a flag",
        STATUS,
        CapMode.AUTO,
        (parse_shape("cpu=9,memory=1Ti"),),
        [(9, True)],
    ),
    ("nothing is readable, auto", Autoscalers(), CapMode.AUTO, (), [(4, True), (MANY, False)]),
    ("nothing is readable, always", Autoscalers(), CapMode.ALWAYS, (), [(4, True)]),
    (
        "a pool without bounds, auto",
        Autoscalers(reports=False, node_pools=(node_pool(),)),
        CapMode.AUTO,
        (),
        [(4, True), (MANY, False)],
    ),
]


@pytest.mark.parametrize(
    ("autoscalers", "mode", "flags", "want"),
    [pytest.param(*case, id=name) for name, *case in MODES],
)
def test_rooms_of_a_mode(
    autoscalers: Autoscalers,
    mode: CapMode,
    flags: tuple[ShapeFlag, ...],
    want: list[tuple[int, bool]],
) -> None:
    cluster = Cluster(NodeFacts(nodes=NODES, autoscalers=autoscalers), mode, flags)
    assert rooms(cluster.limit()) == want


OFF = [
    ("the nodes can't be read", NodeFacts(nodes=None), CapMode.ALWAYS, None),
    ("there are none, which can't be", NodeFacts(nodes={}), CapMode.ALWAYS, None),
    ("never", NodeFacts(nodes=NODES), CapMode.NEVER, None),
    ("the annotation is never", NodeFacts(nodes=NODES), CapMode.ALWAYS, "never"),
]


@pytest.mark.parametrize(
    ("facts", "mode", "annotation"), [pytest.param(*case, id=name) for name, *case in OFF]
)
def test_no_limit(facts: NodeFacts, mode: CapMode, annotation: str | None) -> None:
    assert Cluster(facts, mode).limit(loaded(annotation=annotation)) is None


def test_the_annotation_turns_caps_on() -> None:
    cluster = Cluster(NodeFacts(nodes=NODES, autoscalers=STATUS), CapMode.NEVER)
    assert rooms(cluster.limit(loaded(annotation="always"))) == [(4, True)]
    assert rooms(cluster.limit(loaded(annotation="auto"))) == [(4, True), (MANY, False)]


def test_an_invalid_annotation_is_ignored_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(NodeFacts(nodes=NODES), CapMode.ALWAYS)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert rooms(cluster.limit(loaded(annotation="yes"))) == [(4, True)]
        cluster.limit(loaded(annotation="no"))
    errors = [record.__dict__["error"] for record in caplog.records]
    assert errors == [
        "not one of auto, always, never: 'yes'",
        "not one of auto, always, never: 'no'",
    ]


def test_a_limit_is_the_same_object_until_it_changes() -> None:
    cluster = Cluster(NodeFacts(nodes=NODES, autoscalers=NO_AUTOSCALER))
    before = cluster.limit()
    small = node("n2", cpu="2", memory="4Gi")
    cluster.facts = NodeFacts(
        nodes={**NODES, **by_name(small)}, autoscalers=Autoscalers(reports=False, node_pools=())
    )
    assert cluster.limit() is before
    cluster.facts = NodeFacts(nodes=by_name(small), autoscalers=NO_AUTOSCALER)
    assert rooms(cluster.limit()) == [(2, True), (4, False)]
    cluster.clock.forward(DEPARTURE)
    assert rooms(cluster.limit()) == [(2, True)]


def test_a_node_that_has_gone_stays_a_guess_in_mode_always() -> None:
    cluster = Cluster(NodeFacts(nodes=NODES, autoscalers=STATUS), CapMode.ALWAYS)
    assert rooms(cluster.limit()) == [(4, True)]
    small = node("n2", cpu="2", memory="4Gi")
    cluster.facts = NodeFacts(nodes=by_name(small), autoscalers=STATUS)
    assert rooms(cluster.limit()) == [(2, True), (4, False)]


def test_the_only_node_still_caps_after_it_was_cordoned_for_long() -> None:
    cluster = Cluster(NodeFacts(nodes=NODES, autoscalers=STATUS), CapMode.ALWAYS)
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cluster.facts = NodeFacts(
        nodes=by_name(node("n1", cpu="4", taints=[taint])), autoscalers=STATUS
    )
    assert rooms(cluster.limit()) == [(4, False)]
    cluster.clock.forward(DEPARTURE)
    limit = cluster.limit()
    assert rooms(limit) == [(4, False)]
    assert limit is not None
    assert limit.rooms[0].sentence == "A node takes no new pods, and no other node matches"


AGENT: dict[str, Any] = {"namespace": "kube-system", "kind": "DaemonSet"}

DAEMON_SETS = [
    ("the requests of its template", None, 3500),
    ("a larger target of its VPA", {"recommended": {"cpu": "1"}}, 3000),
    ("a smaller target of its VPA", {"recommended": {"cpu": "100m"}}, 3500),
    ("its VPA is Off", {"recommended": {"cpu": "1"}, "mode": "Off"}, 3500),
    ("its VPA changes nothing", {"recommended": {"cpu": "1"}, "controlled_by": "other"}, 3500),
]


@pytest.mark.parametrize(
    ("vpa", "cpu"), [pytest.param(*case, id=name) for name, *case in DAEMON_SETS]
)
def test_the_room_that_daemon_sets_take(vpa: dict[str, Any] | None, cpu: int) -> None:
    cluster = Cluster(NodeFacts(nodes=NODES, daemon_sets=(daemon_set(),)), CapMode.ALWAYS)
    if vpa is not None:
        cluster.vpas = {VpaKey("kube-system", "agent"): loaded("agent", **AGENT, **vpa)}
    limit = cluster.limit()
    assert limit is not None
    assert [each.room.cpu for each in limit.rooms] == [cpu]


def test_a_daemon_set_takes_no_room_from_itself() -> None:
    cluster = Cluster(NodeFacts(nodes=NODES, daemon_sets=(daemon_set(),)), CapMode.ALWAYS)
    assert rooms(cluster.limit(loaded("agent", **AGENT))) == [(4, True)]


def test_an_unreadable_template_of_a_daemon_set_takes_no_room() -> None:
    facts = NodeFacts(nodes=NODES, daemon_sets=(daemon_set(cpu="many"),))
    assert rooms(Cluster(facts, CapMode.ALWAYS).limit()) == [(4, True)]


def test_the_sentence_of_a_room_has_its_numbers() -> None:
    limit = Cluster(NodeFacts(nodes=NODES, daemon_sets=(daemon_set(),)), CapMode.ALWAYS).limit()
    assert limit is not None
    assert limit.rooms[0].sentence == (
        "The best node that its pods may run on, of type m5, has room for 3500m CPU and 15Gi "
        "memory beside DaemonSets"
    )
