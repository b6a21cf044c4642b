"""What a VPA's status should say, and whether it is written now.

Source: recommender.md sections 8 and 9.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus
from common.recommendation.processing import ContainerAmounts
from recommender.post_processing import Publication, publish
from recommender.recommend import ContainerEstimate
from recommender.status import (
    Findings,
    Resolution,
    is_provided,
    is_worth_writing,
    moved,
    next_status,
    open_status,
    published,
)
from recommender.trail import Cause, Trail


class Writing(enum.StrEnum):
    """Whether a status is written."""

    EQUAL = "equal"  # it says what it should
    WAITS = "waits"  # it nearly does
    WRITTEN = "written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What else than usage a status depends on."""

    resolution: Resolution
    controlled_by: str = ""  # another VPA
    pods: int  # that the VPA's selector matches
    fetching: bool  # some of its history is still being loaded
    now: datetime
    waited: timedelta  # since the last write
    interval: timedelta  # between cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was decided about a VPA's status."""

    recommendation: tuple[ContainerAmounts, ...]  # that follows from usage
    wanted: VpaStatus
    by: float  # how far the status is from what is wanted, see ``moved``
    writing: Writing

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
    # Only what nobody has observed needs it, which is next to nothing; and who asks for a trail.
    unneeded = trail is None and all(one.observed for one in estimated)
    before = {} if unneeded else published(vpa.status)
    recommendation = publish(
        estimated,
        publication,
        annotations=vpa.metadata.annotations or {},
        policy=vpa.spec.resource_policy,
        published=before,
        trail=trail,
    )
    resolution, now = circumstances.resolution, circumstances.now
    findings = Findings(
        recommendation=recommendation,
        pods=circumstances.pods,
        unsupported=resolution.message,
        controlled_by=circumstances.controlled_by,
        low_confidence=any(
            confidence < 1 for one in estimated for confidence in one.confidence.values()
        ),
        fetching_history=circumstances.fetching,
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
        trail.moved(stays, recommendation, before.values())
    return Outcome(recommendation=recommendation, wanted=wanted, by=by, writing=writing)


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
