"""What a VPA's status should say, and whether it is written now.

Source: recommender.md sections 8 and 9.
"""

import enum
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus
from common.recommendation.processing import ContainerAmounts
from recommender.estimate.estimation import ContainerEstimate
from recommender.estimate.post_processing import Publication, publish
from recommender.estimate.published import Chosen, Earlier
from recommender.estimate.trace import Cause, Trail
from recommender.model.autoscalers import EVERY_OTHER, Marks
from recommender.publish.status import (
    Findings,
    is_provided,
    is_worth_writing,
    moved,
    next_status,
    open_status,
    published,
    stale_containers,
)
from recommender.sources.target_resolution import TargetResolution


class Writing(enum.StrEnum):
    """Whether a status is written."""

    EQUAL = "equal"  # it says what it should
    WAITS = "waits"  # it nearly does
    WRITTEN = "written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What else than usage a status depends on."""

    resolution: TargetResolution
    controlled_by: str = ""  # another VPA
    pods: int  # that the VPA's selector matches
    fetching: bool  # some of its history is still being loaded
    now: datetime
    waited: timedelta  # since the last write
    interval: timedelta  # between cycles
    marks: Marks = field(default_factory=Marks)  # of the history of its containers
    idle: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    """Containers that stay as they are published, see ``Earlier``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was decided about a VPA's status."""

    recommendation: tuple[ContainerAmounts, ...]  # that follows from usage
    wanted: VpaStatus
    by: float  # how far the status is from what is wanted, see ``moved``
    writing: Writing
    chosen: Chosen

    @property
    def is_plain(self) -> bool:
        """Whether usage decides everything."""
        return not (self.chosen.stale or self.chosen.unknown)

    def status(self, current: VpaStatus) -> VpaStatus:
        """The status after this, which says ``current`` before."""
        return self.wanted if self.writing is Writing.WRITTEN else current


def outcome(
    vpa: VerticalPodAutoscaler,
    estimated: Sequence[ContainerEstimate],
    publication: Publication,
    circumstances: Circumstances,
    trail: Trail | None = None,
) -> Outcome:
    """Decide about a VPA's status; ``trail`` is told the way of each number into it.

    Raises:
        QuantityError: a bound of the VPA's policy is no quantity.
    """
    earlier = _earlier(vpa, estimated, publication, circumstances, is_asked=trail is not None)
    chosen = publish(
        estimated,
        publication,
        annotations=vpa.metadata.annotations or {},
        policy=vpa.spec.resource_policy,
        earlier=earlier,
        trail=trail,
    )
    recommendation = chosen.amounts
    names = {one.name for one in recommendation}
    resolution, now = circumstances.resolution, circumstances.now
    findings = Findings(
        recommendation=recommendation,
        pods=circumstances.pods,
        unsupported=resolution.message,
        controlled_by=circumstances.controlled_by,
        low_confidence=any(
            confidence < 1
            for one in estimated
            if one.container in names
            for confidence in one.confidence.values()
        ),
        fetching_history=circumstances.fetching,
        unknown=chosen.unknown,
        stale=chosen.stale,
    )
    stays: Cause | None = None
    if resolution.open:
        stays, wanted = Cause.TARGET_UNKNOWN, open_status(vpa, findings.unsupported, now)
    else:
        wanted = next_status(vpa, findings, now)
        if _keeps(vpa, findings):
            stays = Cause.HISTORY_MISSING
            wanted = replace(wanted, recommendation=vpa.status.recommendation)
    by = moved(vpa.status, wanted)
    writing = Writing.EQUAL if not by else Writing.WAITS
    if is_worth_writing(by, waited=circumstances.waited, interval=circumstances.interval):
        writing = Writing.WRITTEN
    if stays is None and writing is Writing.WAITS:
        stays = Cause.TOO_CLOSE
    if trail is not None and stays is not None:
        trail.moved(stays, recommendation, published(vpa.status).values())
    return Outcome(
        recommendation=recommendation,
        wanted=wanted,
        by=by,
        writing=writing,
        chosen=chosen,
    )


def _earlier(
    vpa: VerticalPodAutoscaler,
    estimated: Sequence[ContainerEstimate],
    publication: Publication,
    circumstances: Circumstances,
    *,
    is_asked: bool,
) -> Earlier:
    """What is published, as far as it matters: mostly usage decides everything."""
    marks, idle = circumstances.marks, circumstances.idle
    stale = stale_containers(vpa.status) | marks.expired
    if publication.without_samples:
        stale, idle = frozenset(), {}
    is_known = all(set(one.target) <= one.observed for one in estimated)
    if is_known and not (stale or idle or is_asked):
        return Earlier()
    is_current = vpa.status.observed_generation == vpa.metadata.generation
    if EVERY_OTHER in marks.outdated and not is_current:
        return Earlier()
    amounts = {
        name: one for name, one in published(vpa.status).items() if name not in marks.outdated
    }
    idle = {name: controlled for name, controlled in idle.items() if name in amounts}
    return Earlier(amounts=amounts, stale=stale, killed=marks.killed, idle=idle)


def _keeps(vpa: VerticalPodAutoscaler, findings: Findings) -> bool:
    """Whether what is published stays for now (X72).

    A few live samples know less than what was published with all the history, which comes soon.
    """
    return bool(
        findings.fetching_history
        and findings.low_confidence
        and findings.recommendation
        and is_provided(vpa.status)
    )
