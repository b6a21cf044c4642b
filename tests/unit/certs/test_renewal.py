"""When certificates are kept, renewed and dropped: the decisions of ``certs.renewal``."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from certs import authority
from certs.authority import Bundle, Pair
from certs.renewal import Policy, Step, carry_out, decide, usable

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LIFE = timedelta(days=100)
HOST = "vpa-webhook.kube-system.svc"
POLICY = Policy(
    hosts=[HOST],
    lifetime=LIFE,
    settle=timedelta(minutes=10),
    overlap=timedelta(days=30),
)
FORCED = replace(POLICY, forced=True)
GARBAGE = Pair(key=b"", certificate=b"no PEM")


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def made(*, days: float = 0) -> Bundle:
    """What was made so many days ago."""
    now = NOW - timedelta(days=days)
    return authority.create([HOST], make_key=key, now=now, lifetime=LIFE)


def take(step: Step, kept: Bundle | None, *, now: datetime = NOW, trusted: bytes = b"") -> Bundle:
    return carry_out(step, kept, trusted, POLICY, make_key=key, now=now)


YOUNG = made()
OTHER = made()
BESIDE = take(Step.NEW_AUTHORITY, YOUNG)  # a new authority that has signed nothing yet
SIGNED = take(Step.NEW_SERVING_PAIR, BESIDE)


def with_authority(bundle: Bundle, **changes: bytes) -> Bundle:
    return replace(bundle, authority=replace(bundle.authority, **changes))


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: Step
    reason: str
    kept: Bundle | None = field(default=YOUNG)
    after: timedelta = timedelta()
    policy: Policy = POLICY


CASES = [
    Case(id="nothing is there", kept=None, want=Step.REPLACE, reason="there is none"),
    Case(id="a young pair", want=Step.KEEP, reason="nothing is due"),
    Case(
        id="a little more than two fifths left",
        after=timedelta(days=59, hours=23),
        want=Step.KEEP,
        reason="nothing is due",
    ),
    Case(
        id="two fifths left",
        after=timedelta(days=60),
        want=Step.NEW_AUTHORITY,
        reason="the authority expires",
    ),
    Case(id="asked for", policy=FORCED, want=Step.NEW_AUTHORITY, reason="it was asked for"),
    Case(
        id="in the last second",
        after=LIFE - timedelta(seconds=1),
        want=Step.NEW_AUTHORITY,
        reason="the authority expires",
    ),
    Case(id="in the second after", after=LIFE, want=Step.REPLACE, reason="valid authority"),
    Case(
        id="before its time",
        after=-timedelta(minutes=6),
        want=Step.REPLACE,
        reason="valid authority",
    ),
    Case(
        id="another host",
        policy=replace(POLICY, hosts=[HOST, "other"]),
        want=Step.NEW_SERVING_PAIR,
        reason="lacks other",
    ),
    Case(
        id="no serving pair",
        kept=replace(YOUNG, server=GARBAGE),
        want=Step.NEW_SERVING_PAIR,
        reason="the serving pair can't be read",
    ),
    Case(
        id="another serving key",
        kept=replace(YOUNG, server=replace(YOUNG.server, key=OTHER.server.key)),
        want=Step.NEW_SERVING_PAIR,
        reason="does not belong",
    ),
    Case(
        id="signed by another authority of the same name",
        kept=replace(YOUNG, server=OTHER.server),
        want=Step.NEW_SERVING_PAIR,
        reason="not signed by",
    ),
    Case(
        id="a serving pair that serves, and no key to sign the next one",
        kept=with_authority(YOUNG, key=b""),
        want=Step.NEW_AUTHORITY,
        reason="the authority can't be read",
    ),
    Case(
        id="the key of another authority",
        kept=with_authority(YOUNG, key=OTHER.authority.key),
        want=Step.NEW_AUTHORITY,
        reason="does not belong",
    ),
    Case(
        id="nothing of it can be read",
        kept=Bundle(authority=GARBAGE, server=GARBAGE),
        want=Step.REPLACE,
        reason="can't be read",
    ),
    Case(
        id="a new authority that has to settle",
        kept=BESIDE,
        after=timedelta(minutes=9, seconds=59),
        want=Step.WAIT,
        reason="settles until",
    ),
    Case(
        id="a new authority that has settled",
        kept=BESIDE,
        after=timedelta(minutes=10),
        want=Step.NEW_SERVING_PAIR,
        reason="has settled",
    ),
    Case(
        id="no time to settle",
        kept=take(Step.NEW_AUTHORITY, made(days=100 - 0.001)),
        want=Step.NEW_SERVING_PAIR,
        reason="has settled",
    ),
    Case(
        id="an old authority that may be needed",
        kept=SIGNED,
        after=timedelta(days=29, hours=23),
        want=Step.WAIT,
        reason="stays until",
    ),
    Case(
        id="an old authority that nobody needs",
        kept=SIGNED,
        after=timedelta(days=30),
        want=Step.DROP_OLD_AUTHORITIES,
        reason="nobody needs",
    ),
    Case(
        id="an old authority that has expired",
        kept=take(Step.NEW_SERVING_PAIR, take(Step.NEW_AUTHORITY, made(days=99))),
        after=timedelta(days=1),
        want=Step.DROP_OLD_AUTHORITIES,
        reason="an old authority has expired",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_decide(case: Case) -> None:
    decision = decide(case.kept, case.policy, NOW + case.after)
    assert (decision.step, case.reason in decision.reason) == (case.want, True), decision.reason


def certificates(pem: bytes) -> list[bytes]:
    return [authority.as_pem([each]) for each in authority.read_certificates(pem)]


def test_a_new_authority_stands_before_the_old_one_and_what_is_served_stays() -> None:
    new, old = certificates(BESIDE.authority.certificate)
    assert old == YOUNG.authority.certificate
    assert new != old
    assert BESIDE.server == YOUNG.server
    assert usable(BESIDE, [HOST], NOW)


def test_both_are_trusted_when_the_new_authority_signs() -> None:
    assert SIGNED.authority == BESIDE.authority
    server = authority.read_certificates(SIGNED.server.certificate)[0]
    assert authority.signed_by(server, authority.read_certificates(SIGNED.authority.certificate)[0])


def test_what_is_dropped_is_what_is_over() -> None:
    over = take(Step.DROP_OLD_AUTHORITIES, SIGNED, now=NOW + POLICY.overlap)
    assert over.authority.certificate == certificates(SIGNED.authority.certificate)[0]
    assert over.server == SIGNED.server
    early = take(Step.DROP_OLD_AUTHORITIES, SIGNED)
    assert early == SIGNED


@pytest.mark.parametrize("step", [Step.REPLACE, Step.NEW_AUTHORITY])
def test_what_api_servers_trust_stays_trusted(step: Step) -> None:
    """A Secret that was deleted, or filled by somebody else: pods still serve what they have."""
    kept = None if step is Step.REPLACE else YOUNG
    trusted = OTHER.authority.certificate + made(days=100).authority.certificate
    bundle = take(step, kept, trusted=trusted)
    _, *old = certificates(bundle.authority.certificate)
    ours = [] if kept is None else [YOUNG.authority.certificate]
    assert old == [*ours, OTHER.authority.certificate]  # and not the expired one


@pytest.mark.parametrize("trusted", [b"", b"no PEM"], ids=["nothing", "garbage"])
def test_garbage_is_not_trusted(trusted: bytes) -> None:
    bundle = take(Step.REPLACE, None, trusted=trusted)
    assert len(certificates(bundle.authority.certificate)) == 1


def runs(
    kept: Bundle | None, policy: Policy, *, every: timedelta, until: Callable[[Step], bool]
) -> list[tuple[Step, Bundle]]:
    """A run of ``certs`` at each ``every``, until one ends with what is asked for."""
    told: list[tuple[Step, Bundle]] = []
    for number in count():
        now = NOW + number * every
        while (decision := decide(kept, policy, now)).step.changes:
            kept = carry_out(decision.step, kept, b"", policy, make_key=key, now=now)
            told.append((decision.step, kept))
        if until(decision.step):
            return told
    raise AssertionError


@pytest.mark.parametrize(
    "every", [timedelta(minutes=7), timedelta(hours=1), timedelta(days=1)], ids=str
)
def test_a_renewal_is_three_steps_and_two_neighbours_always_trust_each_other(
    every: timedelta,
) -> None:
    old = made(days=60)
    hasty = replace(POLICY, overlap=timedelta(days=1))
    told = runs(old, hasty, every=every, until=lambda step: step is Step.KEEP)
    assert [step for step, _ in told] == [
        Step.NEW_AUTHORITY,
        Step.NEW_SERVING_PAIR,
        Step.DROP_OLD_AUTHORITIES,
    ]
    bundles = [old, *(bundle for _, bundle in told)]
    for one, next_one in pairwise(bundles):
        for trusting, served in ((one, next_one), (next_one, one)):
            (server,) = authority.read_certificates(served.server.certificate)
            trusted = authority.read_certificates(trusting.authority.certificate)
            assert any(authority.signed_by(server, each) for each in trusted)


def test_a_new_pair_serves_before_a_third_is_left() -> None:
    """Then admission warns; the runs are a day apart."""
    kept, now = YOUNG, NOW
    while kept.server == YOUNG.server:
        now += timedelta(days=1)
        kept = take(decide(kept, POLICY, now).step, kept, now=now)
    (old,) = authority.read_certificates(YOUNG.server.certificate)
    assert old.not_valid_after_utc - now > LIFE / 3


def test_a_second_renewal_during_the_first_keeps_all_three_authorities() -> None:
    twice = take(Step.NEW_AUTHORITY, BESIDE)
    assert len(certificates(twice.authority.certificate)) == 3
    assert decide(twice, POLICY, NOW).step is Step.WAIT
    assert usable(twice, [HOST], NOW)
