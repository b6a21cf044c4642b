"""Rules of scripted faults of the API server: what they match, how often, and when."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from common.errors import ConfigError
from sandbox.admission.request import UserInfo
from sandbox.apiserver.faults import NOTHING, ApiFault, ApiFaults, Refusal
from sandbox.apiserver.requests import Place, Request
from sandbox.clocks import ShiftedClock
from sandbox.description import Section

BEGIN = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
RESIZE = Place(
    group="", version="v1", plural="pods", namespace="shop", name="web-1", subresource="resize"
)
LEASE = Place(
    group="coordination.k8s.io", version="v1", plural="leases", namespace="shop", name="vpa"
)


class Still:
    def now(self) -> datetime:
        return BEGIN


def request(user: str = "system:serviceaccount:kube-system:vpa-updater") -> Request:
    return Request(
        method="PATCH",
        path="",
        query={},
        headers={"user-agent": "vpa-updater/1.0"},
        user=UserInfo(username=user),
    )


def rule(**raw: Any) -> ApiFault:
    return ApiFault.parse(Section({"refuse": 500, **raw}, "api-faults[0]"))


def faults(*rules: ApiFault, seed: int = 1) -> tuple[ApiFaults, ShiftedClock]:
    clock = ShiftedClock(Still())
    return ApiFaults(clock, Random(seed), faults=rules), clock


def hits(found: ApiFaults, place: Place = RESIZE, verb: str = "patch") -> bool:
    return found.effect_on(request(), place, verb) is not NOTHING


@pytest.mark.parametrize(
    ("match", "want"),
    [
        pytest.param({}, True, id="no match is every call"),
        pytest.param({"verb": "patch"}, True, id="verb"),
        pytest.param({"verb": "get"}, False, id="another verb"),
        pytest.param({"resource": "pods/resize"}, True, id="a subresource, as in RBAC"),
        pytest.param({"resource": "pods/*"}, True, id="any subresource"),
        pytest.param({"resource": "pods"}, False, id="the resource without its subresources"),
        pytest.param({"group": "core"}, True, id="the core group"),
        pytest.param({"group": "apps"}, False, id="another group"),
        pytest.param({"namespace": "shop", "name": "web-*"}, True, id="namespace and name"),
        pytest.param({"namespace": "shop", "name": "db-*"}, False, id="all must fit"),
        pytest.param({"user": "*:vpa-updater"}, True, id="user"),
        pytest.param({"user-agent": "vpa-updater/*"}, True, id="user agent"),
        pytest.param({"user-agent": "kubectl/*"}, False, id="another user agent"),
    ],
)
def test_a_rule_is_about(match: dict[str, str], *, want: bool) -> None:
    assert hits(faults(rule(match=match))[0]) is want


def test_a_count_is_used_up() -> None:
    twice = rule(count=2)
    found, _ = faults(twice)
    assert [hits(found) for _ in range(3)] == [True, True, False]
    assert found.hits(twice) == 2


def test_calls_that_do_not_match_use_nothing_up() -> None:
    found, _ = faults(rule(match={"resource": "leases"}, count=1))
    assert [hits(found), hits(found, LEASE, "update"), hits(found, LEASE, "update")] == [
        False,
        True,
        False,
    ]


def test_a_rule_holds_from_and_until() -> None:
    found, clock = faults(rule(**{"from": "10s", "until": "1m"}))
    told = []
    for seconds in (9.9, 10, 59.9, 60):
        clock.ahead = timedelta(seconds=seconds)
        told.append(hits(found))
    assert told == [False, True, True, False]


def test_a_share_is_decided_by_the_seed() -> None:
    def series(seed: int) -> list[bool]:
        found, _ = faults(rule(share=0.3), seed=seed)
        return [hits(found) for _ in range(1000)]

    assert series(7) == series(7)
    assert 250 < sum(series(7)) < 350


def test_the_first_rule_that_says_anything_about_a_field_decides_it() -> None:
    found, _ = faults(rule(refuse=409), rule(refuse=503, delay="2s"))
    effect = found.effect_on(request(), RESIZE, "patch")
    assert (effect.refuse, effect.delay) == (Refusal.CONFLICT, 2.0)


def test_a_rule_can_be_added_and_taken_back() -> None:
    found, _ = faults()
    assert not hits(found)
    take_back = found.add(rule())
    assert hits(found)
    take_back()
    take_back()
    assert not hits(found)


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        (
            {"refuse": 418},
            "api-faults[0].refuse: not one of 401, 403, 409, 422,",
        ),
        ({"share": 2}, "api-faults[0].share: a share is at most 1: 2"),
        ({"wach-cut": 1}, "api-faults[0].wach-cut: unknown field"),
        ({"match": {"subresource": "x"}}, "api-faults[0].match.subresource: unknown field"),
    ],
)
def test_what_can_not_be_read_is_named(raw: dict[str, Any], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rule(**raw)
    assert str(caught.value).startswith(want)
