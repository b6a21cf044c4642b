"""How far pods are from their recommendation: found once for what is alike, never kept too long."""

from dataclasses import dataclass

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeItem, LimitRangeSpec, Pod
from updater.decision import Decision, Reason
from updater.evaluate.recommendation_fit import Measured, RecommendationFit, measure_pod

TARGET = recommendation(target={"cpu": "200m"})
VPA = vpa(recommendations=(TARGET,))
WEB = pod(containers=(container(requests={"cpu": "100m"}),))
NARROW = LimitRangeSpec(limits=(LimitRangeItem(type="Container", max={"cpu": "150m"}),))


def replica(of: Pod = WEB) -> Pod:
    """Another pod that shares what counts with the first one, as ``LivePod`` has it."""
    meta = msgspec.structs.replace(of.metadata, name="web-1", uid="uid-web-1")
    return msgspec.structs.replace(of, metadata=meta)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is different in the second pass."""

    id: str
    vpa: VerticalPodAutoscaler = VPA
    limit_ranges: tuple[LimitRangeSpec, ...] = ()
    pod: Pod = WEB
    remembered: bool


CASES = [
    Case(id="nothing", remembered=True),
    Case(id="another replica", pod=replica(), remembered=True),
    Case(
        id="another recommendation",
        vpa=vpa(recommendations=(recommendation(target={"cpu": "300m"}),)),
        remembered=False,
    ),
    Case(
        id="no recommendation any more",
        vpa=vpa(recommendations=None),
        remembered=False,
    ),
    Case(id="a LimitRange", limit_ranges=(NARROW,), remembered=False),
    Case(
        id="another request",
        pod=pod(containers=(container(requests={"cpu": "150m"}),)),
        remembered=False,
    ),
    Case(
        id="an observed list without the container",
        pod=pod(
            annotations={"vpaObservedContainers": "side"},
            containers=(container(requests={"cpu": "100m"}),),
        ),
        remembered=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_remembered_is_what_would_be_found_anew(case: Case) -> None:
    first = RecommendationFit(VPA)
    found = first.drift(WEB)
    second = RecommendationFit(case.vpa, case.limit_ranges, before=first.drifts)

    drift = second.drift(case.pod)

    anew = measure_pod(case.pod, case.vpa, case.limit_ranges)
    assert drift == (anew if isinstance(anew, Decision) else anew.drift)
    assert (drift is found) is case.remembered


def test_the_rest_is_kept_for_the_last_kind_of_pod() -> None:
    fits = RecommendationFit(VPA)
    found = fits.measured(WEB)
    assert isinstance(found, Measured)
    assert fits.measured(replica()) is found
    other = pod(containers=(container(requests={"cpu": "150m"}),))
    assert fits.measured(other) == measure_pod(other, fits.vpa, ())


def test_what_no_pod_has_any_more_is_forgotten() -> None:
    first = RecommendationFit(VPA)
    first.drift(WEB)
    second = RecommendationFit(first.vpa, before=first.drifts)
    assert not second.drifts.known
    second.drift(replica())
    assert len(second.drifts.known) == 1


def test_that_a_pod_cannot_be_read_is_found_once_too() -> None:
    strange = pod(containers=(container(requests={"cpu": "lots"}),))
    fits = RecommendationFit(VPA)
    outcome = fits.drift(strange)
    assert isinstance(outcome, Decision)
    assert outcome.reason is Reason.UNREADABLE
    assert fits.drift(replica(strange)) is outcome
