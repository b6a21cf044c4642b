"""The limits that nodes set to the pods of VPAs."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from common.api.autoscaling import UpdateMode
from common.api.workloads import DaemonSet
from common.flags import one_of
from common.identity_cache import IdentityCache
from common.kube.node_autoscalers import NODE_POOLS
from common.quantity import QuantityError
from common.resources import cpu_quantity, memory_quantity
from common.runtime.clock import Clock
from common.runtime.object_errors import Boundary, ObjectErrors
from common.scheduling.eligibility import SchedulingRules
from common.scheduling.pod_claims import PodShape, claims_of, shape_of_template, targets_of
from common.scheduling.room import Room
from recommender.estimate.step_reasons import StepReason
from recommender.model.keys import VpaKey
from recommender.nodes.autoscalers import Autoscalers, makeable_shapes
from recommender.nodes.cap_mode import CAP_ANNOTATION, CapMode
from recommender.nodes.eligible_rooms import (
    DaemonSetKey,
    DaemonSetNeed,
    EligibleRoom,
    RoomFinder,
)
from recommender.nodes.node_facts import NodeFacts
from recommender.nodes.node_shapes import NodeShape
from recommender.nodes.shape_flag import ShapeFlag
from recommender.publish.pod_limits import LimitRoom, PodLimit
from recommender.publish.status import ConditionType, recommended_amounts
from recommender.sources.conversion import written_mode
from recommender.sources.target_resolution import LoadedVpa

logger = logging.getLogger(__name__)

_MIB = 1 << 20
_parse_mode = one_of(CapMode)
_DAEMON_SETS = 1 << 12  # whose needs are cached
_ROOM = (
    "The best node that its pods may run on{about} has room for {cpu} CPU and {memory} memory "
    "beside DaemonSets"
)
_NO_NODE = (
    "The node selector, the required node affinity and the tolerations of its pods match no known "
    "node"
)
_MOST_LIMITS = 1 << 16  # cached; about the number of workloads in the largest clusters


@dataclass(frozen=True, slots=True)
class _Known:
    """A limit, and what it follows from."""

    rules: SchedulingRules
    version: int  # of the rooms
    rooms: tuple[EligibleRoom, ...]
    limit: PodLimit


class NodeLimits:
    """A source of limits: the pod of a recommendation must fit a node that it may run on."""

    def __init__(
        self,
        facts: Callable[[], NodeFacts],
        *,
        mode: CapMode,
        flags: Sequence[ShapeFlag] = (),
        clock: Clock,
        errors: ObjectErrors,
    ) -> None:
        """Initialize; ``mode`` applies to VPAs without the annotation."""
        self._facts = facts
        self._clock = clock
        self._errors = errors
        self._mode = mode
        self._flags = flags
        self._is_on = False
        self._finder = RoomFinder()
        self._autoscalers: Autoscalers | None = None
        self._makeable: tuple[NodeShape, ...] = ()
        self._needs = IdentityCache[DaemonSetNeed | None](_DAEMON_SETS)
        self._limits: dict[tuple[int, DaemonSetKey | None, CapMode], _Known] = {}
        self._logged: dict[VpaKey, str] = {}

    def begin(self, vpas: Mapping[VpaKey, LoadedVpa]) -> None:
        """Follow the cluster, for the VPAs of this cycle."""
        facts = self._facts()
        self._is_on = bool(facts.nodes)  # the recommender runs on a node, so there is one
        if not facts.nodes:
            return
        if facts.autoscalers != self._autoscalers:
            self._autoscalers = facts.autoscalers
            self._makeable = makeable_shapes(facts.autoscalers, self._flags, self._around_pool)
        of_daemon_sets = _by_daemon_set(vpas)
        needs = (self._need(each, of_daemon_sets) for each in facts.daemon_sets)
        self._finder.index.update(facts.nodes, self._clock.now(), facts.static_pods)
        self._finder.update(self._makeable, tuple(each for each in needs if each is not None))
        if len(self._limits) > _MOST_LIMITS:
            self._limits = {}
        for key in self._logged.keys() - vpas.keys():
            del self._logged[key]

    def limit(self, key: VpaKey, loaded: LoadedVpa, pod: PodShape) -> PodLimit | None:
        """Return the limit for the pods of a VPA; None: it isn't capped to nodes."""
        mode = self._mode_of(key, loaded)
        if not self._is_on or mode is CapMode.NEVER:
            return None
        own = _own_daemon_set(loaded)
        which = (id(pod.rules), own, mode)
        known = self._limits.get(which)
        if known is not None and known.version == self._finder.version:
            return known.limit
        rooms = self._finder.rooms(pod.rules, own)
        if known is not None and rooms is known.rooms:
            found = known.limit
        else:
            found = _limit(rooms, with_guesses=mode is CapMode.AUTO)
            if known is not None and found == known.limit:
                found = known.limit
        self._limits[which] = _Known(pod.rules, self._finder.version, rooms, found)
        return found

    def _around_pool(self, name: str) -> Boundary:
        return self._errors.around("node_pool", NODE_POOLS.kind, "", name)

    def _mode_of(self, key: VpaKey, loaded: LoadedVpa) -> CapMode:
        text = (loaded.vpa.metadata.annotations or {}).get(CAP_ANNOTATION)
        if text is None:
            return self._mode
        try:
            return _parse_mode(text)
        except ValueError as error:
            if self._logged.get(key) != text:
                self._logged[key] = text
                logger.warning(
                    "annotation ignored, --cap-to-nodes applies",
                    extra={
                        "vpa": f"{key.namespace}/{key.name}",
                        "annotation": CAP_ANNOTATION,
                        "error": str(error),
                    },
                )
            return self._mode

    def _need(
        self, daemon_set: DaemonSet, vpas: Mapping[DaemonSetKey, LoadedVpa]
    ) -> DaemonSetNeed | None:
        key = (daemon_set.metadata.namespace, daemon_set.metadata.name)
        loaded = vpas.get(key)
        status = None if loaded is None else loaded.vpa.status
        parts = (daemon_set.spec.template, status)
        return self._needs.get(parts, lambda: _need(key, daemon_set, loaded))


def _limit(rooms: Sequence[EligibleRoom], *, with_guesses: bool) -> PodLimit:
    return PodLimit(
        reason=StepReason.NODES,
        rooms=tuple(
            _room(each)
            for each in rooms
            if with_guesses or each.shape.was_there or not each.shape.guess
        ),
        lowered=ConditionType.CAPPED_BY_NODES,
        unmet=ConditionType.EXCEEDS_KNOWN_NODES,
        no_room=_NO_NODE,
    )


def _room(found: EligibleRoom) -> LimitRoom:
    room, shape = found.room, found.shape
    memory = memory_quantity(room.memory // _MIB * _MIB)
    about = f", {shape.about}," if shape.about else ""
    numbers = _ROOM.format(about=about, cpu=cpu_quantity(room.cpu), memory=memory)
    return LimitRoom(
        room=room,
        title=shape.title,
        sentence=shape.guess or numbers,
        is_known=not shape.guess,
    )


def _need(
    key: DaemonSetKey, daemon_set: DaemonSet, loaded: LoadedVpa | None
) -> DaemonSetNeed | None:
    """Return the need of a DaemonSet; None if a request in its template can't be read.

    If a VPA changes its pods, the larger of the template and the published target counts.
    """
    shape = shape_of_template(daemon_set.spec.template)
    try:
        claims = claims_of(shape.spec)
    except QuantityError:
        return None
    room = claims.needed({})
    if loaded is not None:
        amounts = recommended_amounts(loaded.vpa.status).values()
        other = claims.needed(targets_of(amounts))
        room = Room(max(room.cpu, other.cpu), max(room.memory, other.memory), 1)
    return DaemonSetNeed(key, shape.rules, room)


def _by_daemon_set(vpas: Mapping[VpaKey, LoadedVpa]) -> Mapping[DaemonSetKey, LoadedVpa]:
    """Return the VPAs that change the pods of a DaemonSet."""
    return {
        own: loaded
        for loaded in vpas.values()
        if (own := _own_daemon_set(loaded)) is not None
        and not loaded.controlled_by
        and written_mode(loaded.vpa) != UpdateMode.OFF
    }


def _own_daemon_set(loaded: LoadedVpa) -> DaemonSetKey | None:
    target = loaded.vpa.spec.target_ref
    if target is None or target.kind != "DaemonSet":
        return None
    return (loaded.vpa.metadata.namespace, target.name)
