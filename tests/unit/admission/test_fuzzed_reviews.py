"""2,000 random reviews, most of them nearly valid; ``make fuzz-admission`` sends 100,000."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings

from admission import review
from admission.field_errors import required
from admission.pod_reviews import VpaMatch
from builders import recommendation, vpa
from common.api.autoscaling import ContainerPolicy, GenericStartupBoost, StartupBoost
from common.api.core import LimitRangeItem, LimitRangeSpec
from common.patches import add
from review_answers import complaint
from review_strategies import Posted, posted
from webhook_harness import FakeCluster, Harness

BODIES = 5  # in each example
BOOST = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=3))
WEB = vpa(
    policies=(ContainerPolicy(container_name="app", startup_boost=BOOST),),
    recommendations=(
        recommendation(target={"cpu": "250m", "memory": "64Mi", "example.com/gpu": "1"}),
        recommendation("proxy"),
    ),
)
LIMITS = LimitRangeSpec(
    limits=(
        LimitRangeItem(type="Container", max={"cpu": "2"}, default={"memory": "1Gi"}),
        LimitRangeItem(type="Pod", max={"cpu": "4", "memory": "2Gi"}),
    )
)


GATES = "InPlace=true,PerVPAConfig=true,CPUStartupBoost=true"


class Tracebacks(logging.Handler):
    """Collects log records with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.seen.append(self.format(record))


@contextmanager
def no_traceback() -> Iterator[None]:
    tracebacks = Tracebacks()
    logger = logging.getLogger("admission")
    logger.addHandler(tracebacks)
    try:
        yield
    finally:
        logger.removeHandler(tracebacks)
    assert tracebacks.seen == []


async def assert_answers(harness: Harness, bodies: list[Posted]) -> None:
    with no_traceback():
        for each in bodies:
            status, answer = await harness.post(each.body)
            assert complaint(each, status, answer) == "", each.body


def harness() -> Harness:
    return Harness(FakeCluster(VpaMatch(WEB), [LIMITS]), gates=GATES)


@pytest.mark.timeout(60)
@settings(max_examples=1000 // BODIES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies=posted(BODIES))
def test_every_review_is_answered_and_no_pod_is_refused(bodies: list[Posted]) -> None:
    asyncio.run(assert_answers(harness(), bodies))


# Single cases that fuzzing or review found.

PODS = b'"resource":{"group":"","version":"v1","resource":"pods"}'
VPAS = (
    b'"resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"}'
)


def many(item: bytes) -> bytes:
    """Return two MiB of list items."""
    return b",".join([item] * (2**21 // (len(item) + 1)))


HUGE_REQUEST = (
    b',"object":{"metadata":{},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":'
    + b"9" * 40
    + b"}}}]}}"
)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(PODS + b',"uid":"\xff"', id="a uid that is not UTF-8"),
        pytest.param(PODS + b',"namespace":"\xed\xa0\x80"', id="a namespace with a lone surrogate"),
        pytest.param(PODS + b',"name":"\\ud800"', id="a name with a truncated escape"),
        pytest.param(PODS + b',"object":{"metadata":{"name":"\xff"}}', id="a pod's name"),
        pytest.param(PODS + b',"object":' + b"[" * 20_000, id="endless lists"),
        pytest.param(PODS + b',"object":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_000, id="deep pod"),
        pytest.param(PODS + HUGE_REQUEST, id="a request of forty digits"),
        pytest.param(VPAS + b',"object":{"spec":' + b'{"a":' * 950 + b"1" + b"}" * 951, id="deep"),
        pytest.param(VPAS + b',"name":"\xff"', id="a VPA's name that is not UTF-8"),
        pytest.param(
            VPAS + b',"object":{"metadata":{"name":"\xff"}}', id="a VPA that is not UTF-8"
        ),
        pytest.param(VPAS + b',"object":{"spec":' + b"7" * 90_000 + b"}", id="endless digits"),
    ],
)
async def test_unusual_bodies(request_: bytes) -> None:
    body = b'{"request":{' + request_ + b"}}"
    await assert_answers(harness(), [Posted(body, intact=False)])


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(
            PODS
            + b',"object":{"metadata":{},"spec":{"containers":['
            + many(b'{"name":"app"}')
            + b"]}}",
            id="a pod of 140,000 containers",
        ),
        pytest.param(
            VPAS
            + b',"object":{"spec":{"resourcePolicy":{"containerPolicies":['
            + many(b"{}")
            + b"]}}}",
            id="a VPA of 700,000 empty policies",
        ),
        pytest.param(
            VPAS
            + b',"operation":"UPDATE","object":{},"oldObject":{"spec":{"x":['
            + many(b"[]")
            + b"]}}",
            id="an old VPA of 700,000 empty lists",
        ),
    ],
)
async def test_large_objects_are_answered_in_time(request_: bytes) -> None:
    body = b'{"request":{' + request_ + b"}}"
    status, answer = await harness().post(body)
    assert complaint(Posted(body, intact=False), status, answer) == ""
    assert len(answer) < 1000


@pytest.mark.parametrize(
    ("status", "answer", "wrong"),
    [
        pytest.param(500, b"", "the status is 500", id="a server error"),
        pytest.param(200, b"", "no AdmissionReview", id="empty"),
        pytest.param(200, review.allow("u")[:-1], "no AdmissionReview", id="truncated answer"),
        pytest.param(200, b'{"response":{"uid":"","allowed":1}}', "version", id="no version"),
        pytest.param(
            200,
            review.deny(review.AdmissionRequest(), [required("spec")]),
            "a pod is refused",
            id="a refusal",
        ),
        pytest.param(
            200,
            review.allow("u", [add("/metadata/annotations/x", "y")]),
            "can't be applied",
            id="a patch that does not fit",
        ),
    ],
)
def test_the_fuzzer_detects_wrong_answers(status: int, answer: bytes, wrong: str) -> None:
    asked = Posted(b'{"request":{"object":{"metadata":{}}}}', intact=True)
    assert wrong in complaint(asked, status, answer)
