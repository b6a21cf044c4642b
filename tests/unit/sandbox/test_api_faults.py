"""Rules of scripted faults of the API server: matching, count and time."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from fixed_clock import FixedClock
from sandbox.admission.request import UserInfo
from sandbox.apiserver.faults import NOTHING, ApiFault, ApiFaults, Calls, Effect, Refusal
from sandbox.apiserver.requests import Place, Request
from sandbox.clocks import ShiftedClock

BEGIN = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
RESIZE = Place(
    group="", version="v1", plural="pods", namespace="shop", name="web-1", subresource="resize"
)
ANY = Calls()
ERROR = Effect(refuse=Refusal.INTERNAL)
LEASE = Place(
    group="coordination.k8s.io", version="v1", plural="leases", namespace="shop", name="vpa"
)


def request(user: str = "system:serviceaccount:kube-system:vpa-updater") -> Request:
    return Request(
        method="PATCH",
        path="",
        query={},
        headers={"user-agent": "vpa-updater/1.0"},
        user=UserInfo(username=user),
    )


def rule(calls: Calls = ANY, effect: Effect = ERROR, **raw: Any) -> ApiFault:
    return ApiFault(calls=calls, effect=effect, **raw)


def faults(*rules: ApiFault, seed: int = 1) -> tuple[ApiFaults, ShiftedClock]:
    clock = ShiftedClock(FixedClock(BEGIN))
    found = ApiFaults(clock, Random(seed))
    for one in rules:
        found.add(one)
    return found, clock


def hits(found: ApiFaults, place: Place = RESIZE, verb: str = "patch") -> bool:
    return found.effect_on(request(), place, verb) is not NOTHING


@pytest.mark.parametrize(
    ("match", "want"),
    [
        pytest.param({}, True, id="no match: every call"),
        pytest.param({"verb": "patch"}, True, id="verb"),
        pytest.param({"verb": "get"}, False, id="another verb"),
        pytest.param({"resource": "pods/resize"}, True, id="a subresource, as in RBAC"),
        pytest.param({"resource": "pods/*"}, True, id="any subresource"),
        pytest.param({"resource": "pods"}, False, id="the resource without its subresources"),
        pytest.param({"group": "core"}, True, id="the core group"),
        pytest.param({"group": "apps"}, False, id="another group"),
        pytest.param({"namespace": "shop", "name": "web-*"}, True, id="namespace and name"),
        pytest.param({"namespace": "shop", "name": "db-*"}, False, id="all fields have to match"),
        pytest.param({"user": "*:vpa-updater"}, True, id="user"),
        pytest.param({"user_agent": "vpa-updater/*"}, True, id="user agent"),
        pytest.param({"user_agent": "kubectl/*"}, False, id="another user agent"),
    ],
)
def test_matching_of_rules(match: dict[str, str], *, want: bool) -> None:
    assert hits(faults(rule(Calls(**match)))[0]) is want


def test_a_rule_applies_as_often_as_its_count() -> None:
    twice = rule(count=2)
    found, _ = faults(twice)
    assert [hits(found) for _ in range(3)] == [True, True, False]
    assert found.hits(twice) == 2


def test_calls_that_do_not_match_do_not_count() -> None:
    found, _ = faults(rule(Calls(resource="leases"), count=1))
    assert [hits(found), hits(found, LEASE, "update"), hits(found, LEASE, "update")] == [
        False,
        True,
        False,
    ]


def test_a_rule_applies_until_its_end() -> None:
    found, clock = faults(rule(end=60.0))
    matched = []
    for seconds in (59.9, 60):
        clock.ahead = timedelta(seconds=seconds)
        matched.append(hits(found))
    assert matched == [True, False]


def test_a_share_depends_on_the_seed() -> None:
    def series(seed: int) -> list[bool]:
        found, _ = faults(rule(share=0.3), seed=seed)
        return [hits(found) for _ in range(1000)]

    assert series(7) == series(7)
    assert 250 < sum(series(7)) < 350


def test_the_first_rule_that_sets_a_field_counts() -> None:
    found, _ = faults(
        rule(effect=Effect(refuse=Refusal.CONFLICT)),
        rule(effect=Effect(refuse=Refusal.UNAVAILABLE, delay=2.0)),
    )
    effect = found.effect_on(request(), RESIZE, "patch")
    assert (effect.refuse, effect.delay) == (Refusal.CONFLICT, 2.0)


def test_a_rule_can_be_added_and_removed() -> None:
    found, _ = faults()
    assert not hits(found)
    remove = found.add(rule())
    assert hits(found)
    remove()
    remove()
    assert not hits(found)
