"""The recommendation fitted to pods: computed once for equal pods."""

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.api.core import Pod
from updater.decision import Decision, Reason
from updater.evaluate.recommendation_fit import Measured, RecommendationFit, measure_pod

VPA = vpa(recommendations=(recommendation(target={"cpu": "200m"}),))
WEB = pod(containers=(container(requests={"cpu": "100m"}),))
OTHERS = {
    "another request": pod(containers=(container(requests={"cpu": "150m"}),)),
    "an observed list without the container": pod(
        annotations={"vpaObservedContainers": "side"},
        containers=(container(requests={"cpu": "100m"}),),
    ),
}


def replica(of: Pod = WEB) -> Pod:
    """Return another pod that shares spec and status with the first one, like a ``LivePod``."""
    meta = msgspec.structs.replace(of.metadata, name="web-1", uid="uid-web-1")
    return msgspec.structs.replace(of, metadata=meta)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_equal_pods_share_the_result(other: Pod) -> None:
    fit = RecommendationFit(VPA)
    found, different = fit.measured(WEB), fit.measured(other)
    assert isinstance(found, Measured)
    assert different == measure_pod(other, VPA, ())
    assert different != found
    assert fit.measured(replica()) is found


def test_an_unreadable_result_is_shared_too() -> None:
    strange = pod(containers=(container(requests={"cpu": "lots"}),))
    fit = RecommendationFit(VPA)
    outcome = fit.measured(strange)
    assert isinstance(outcome, Decision)
    assert outcome.reason is Reason.UNREADABLE
    assert fit.measured(replica(strange)) is outcome
