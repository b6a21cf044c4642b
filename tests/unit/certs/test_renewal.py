"""The decisions of ``certs.renewal``: certificates are kept, renewed or dropped."""

import base64
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from certs import authority
from certs.authority import SKEW, Bundle, Pair
from certs.renewal import CertificatePolicy, RenewalStep, carry_out, decide, usable
from common.certificates import as_pem, distinguished, private_pem, self_signed

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LIFE = timedelta(days=100)
HOST = "vpa-webhook.kube-system.svc"
POLICY = CertificatePolicy(
    hosts=[HOST],
    lifetime=LIFE,
    settle=timedelta(minutes=10),
    overlap=timedelta(days=30),
)
FORCED = replace(POLICY, forced=True)
GARBAGE = Pair(key=b"", certificate=b"no PEM")


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def bundle_of_age(*, days: float = 0) -> Bundle:
    """Return a bundle that was created ``days`` ago."""
    now = NOW - timedelta(days=days)
    return authority.create([HOST], make_key=key, now=now, lifetime=LIFE)


def carry_out_step(
    step: RenewalStep, kept: Bundle | None, *, now: datetime = NOW, trusted: bytes = b""
) -> Bundle:
    return carry_out(step, kept, trusted, POLICY, make_key=key, now=now)


YOUNG = bundle_of_age()
OTHER = bundle_of_age()
UNSETTLED = carry_out_step(
    RenewalStep.NEW_AUTHORITY, YOUNG
)  # with a new authority that has signed nothing yet
SIGNED = carry_out_step(RenewalStep.NEW_SERVING_PAIR, UNSETTLED)


def unconstrained() -> Pair:
    """Return an authority as the reference creates it."""
    own = key()
    name = distinguished(authority.CA_NAME)
    made = self_signed(own, name, since=NOW - SKEW, until=NOW + LIFE)
    return Pair(key=private_pem(own), certificate=as_pem([made]))


UNCONSTRAINED = unconstrained()


def with_authority(bundle: Bundle, **changes: bytes) -> Bundle:
    return replace(bundle, authority=replace(bundle.authority, **changes))


def altered(pem: bytes, old: str, new: str) -> bytes:
    """Return a certificate with other bytes in one place, and thus an invalid signature."""
    (whole,) = authority.read_certificates(pem)
    der = whole.public_bytes(Encoding.DER)
    assert bytes.fromhex(old) in der
    text = base64.encodebytes(der.replace(bytes.fromhex(old), bytes.fromhex(new)))
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"


def short_lived_authority(*, hours: float) -> Bundle:
    """Return a young serving pair whose authority, as API servers get it, expires soon."""
    signer = key()
    made = [
        authority.create_authority(
            [HOST], make_key=lambda: signer, now=NOW - SKEW, lifetime=lifetime
        )
        for lifetime in (LIFE, SKEW + timedelta(hours=hours))
    ]
    server = authority.issue(made[0], [HOST], make_key=key, now=NOW, lifetime=LIFE)
    return Bundle(authority=made[1], server=server)


# Replaced bytes of the version and of object identifiers: the result is unknown, or occurs twice.
ALTERATIONS = {
    "version": ("a003020102", "a003020105"),
    "kind of key": ("2a8648ce3d0201", "2a8648ce3d0209"),
    "curve": ("2a8648ce3d030107", "2a8648ce3d030109"),
    "duplicate extension": ("551d13", "551d0e"),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: RenewalStep
    reason: str
    kept: Bundle | None = field(default=YOUNG)
    after: timedelta = timedelta()
    policy: CertificatePolicy = POLICY


CASES = [
    Case(id="no bundle", kept=None, want=RenewalStep.REPLACE, reason="there is none"),
    Case(
        id="a young pair",
        want=RenewalStep.KEEP,
        reason="nothing is due before 2026-03-03 11:58:00 UTC",
    ),
    Case(
        id="a little more than two fifths left",
        after=timedelta(days=59, hours=23),
        want=RenewalStep.KEEP,
        reason="nothing is due",
    ),
    Case(
        id="two fifths left",
        after=timedelta(days=60),
        want=RenewalStep.NEW_AUTHORITY,
        reason="the authority expires",
    ),
    Case(
        id="a renewal on request",
        policy=FORCED,
        want=RenewalStep.NEW_AUTHORITY,
        reason="it was asked for",
    ),
    Case(
        id="in the last second before expiry",
        after=LIFE - timedelta(seconds=1),
        want=RenewalStep.NEW_AUTHORITY,
        reason="the authority expires",
    ),
    Case(id="at expiry", after=LIFE, want=RenewalStep.REPLACE, reason="valid authority"),
    Case(
        id="before it is valid",
        after=-timedelta(minutes=6),
        want=RenewalStep.REPLACE,
        reason="valid authority",
    ),
    Case(
        id="another host",
        policy=replace(POLICY, hosts=[HOST, "other"]),
        want=RenewalStep.REPLACE,  # the authority must not sign for it
        reason="lacks other",
    ),
    Case(
        id="another host, for which the authority may sign",
        policy=replace(POLICY, hosts=[HOST, f"other.{HOST}"]),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason=f"lacks other.{HOST}",
    ),
    Case(
        id="another host, and an authority without constraints",
        kept=replace(YOUNG, authority=UNCONSTRAINED),
        policy=replace(POLICY, hosts=[HOST, "other"]),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="not signed by a valid authority",
    ),
    Case(
        id="no serving pair",
        kept=replace(YOUNG, server=GARBAGE),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="the serving pair can't be read",
    ),
    Case(
        id="another serving key",
        kept=replace(YOUNG, server=replace(YOUNG.server, key=OTHER.server.key)),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="does not belong",
    ),
    Case(
        id="signed by another authority of the same name",
        kept=replace(YOUNG, server=OTHER.server),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="not signed by",
    ),
    Case(
        id="a valid serving pair, and no key of the authority",
        kept=with_authority(YOUNG, key=b""),
        want=RenewalStep.NEW_AUTHORITY,
        reason="the authority can't be read",
    ),
    Case(
        id="the key of another authority",
        kept=with_authority(YOUNG, key=OTHER.authority.key),
        want=RenewalStep.NEW_AUTHORITY,
        reason="does not belong",
    ),
    Case(
        id="a first certificate that may not sign",
        kept=with_authority(
            YOUNG,
            key=YOUNG.server.key,
            certificate=YOUNG.server.certificate + YOUNG.authority.certificate,
        ),
        want=RenewalStep.NEW_AUTHORITY,
        reason="may sign no certificates",
    ),
    Case(
        id="a serving certificate for other purposes",
        kept=replace(
            YOUNG,
            server=replace(
                YOUNG.server,
                certificate=altered(
                    YOUNG.server.certificate, "2b06010505070301", "2b06010505070304"
                ),
            ),
        ),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="not for servers",
    ),
    Case(
        id="an unreadable bundle",
        kept=Bundle(authority=GARBAGE, server=GARBAGE),
        want=RenewalStep.REPLACE,
        reason="can't be read",
    ),
    Case(
        id="a new authority that has not settled",
        kept=UNSETTLED,
        after=timedelta(minutes=9, seconds=59),
        want=RenewalStep.WAIT,
        reason="settles until",
    ),
    Case(
        id="a new authority that has settled",
        kept=UNSETTLED,
        after=timedelta(minutes=10),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="has settled",
    ),
    Case(
        id="a serving pair that is valid until the run after the next",
        kept=carry_out_step(RenewalStep.NEW_AUTHORITY, bundle_of_age(days=98.9)),
        want=RenewalStep.WAIT,
        reason="settles until",
    ),
    Case(
        id="a serving pair that would expire before the next run",
        kept=carry_out_step(RenewalStep.NEW_AUTHORITY, bundle_of_age(days=99.1)),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="no time to settle: the serving pair expires at 2026-01-03 09:36:00 UTC",
    ),
    Case(
        id="an old authority that would expire before the next run",
        kept=carry_out_step(RenewalStep.NEW_AUTHORITY, short_lived_authority(hours=12)),
        want=RenewalStep.NEW_SERVING_PAIR,
        reason="no time to settle: the serving pair expires at 2026-01-03 00:00:00 UTC",
    ),
    Case(
        id="an old authority that may still be needed",
        kept=SIGNED,
        after=timedelta(days=29, hours=23),
        want=RenewalStep.WAIT,
        reason="stays until",
    ),
    Case(
        id="an old authority that is no longer needed",
        kept=SIGNED,
        after=timedelta(days=30),
        want=RenewalStep.DROP_OLD_AUTHORITIES,
        reason="the old authority is no longer needed",
    ),
    Case(
        id="an old authority that has expired",
        kept=carry_out_step(
            RenewalStep.NEW_SERVING_PAIR,
            carry_out_step(RenewalStep.NEW_AUTHORITY, bundle_of_age(days=99)),
        ),
        after=timedelta(days=1),
        want=RenewalStep.DROP_OLD_AUTHORITIES,
        reason="an old authority has expired",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_decide(case: Case) -> None:
    decision = decide(case.kept, case.policy, NOW + case.after)
    assert (decision.step, case.reason in decision.reason) == (case.want, True), decision.reason


@pytest.mark.parametrize(("old", "new"), ALTERATIONS.values(), ids=ALTERATIONS)
@pytest.mark.parametrize("member", ["authority", "server"])
def test_an_unreadable_certificate_is_replaced(member: str, old: str, new: str) -> None:
    pair: Pair = getattr(YOUNG, member)
    strange = replace(pair, certificate=altered(pair.certificate, old, new))
    decision = decide(replace(YOUNG, **{member: strange}), POLICY, NOW)
    assert decision.step is (
        RenewalStep.REPLACE if member == "authority" else RenewalStep.NEW_SERVING_PAIR
    )
    made = carry_out_step(RenewalStep.REPLACE, None, trusted=strange.certificate)
    assert len(certificates(made.authority.certificate)) == 1


@given(
    st.sampled_from(["authority", "server"]),
    st.dictionaries(st.integers(0, 999), st.integers(0, 255), min_size=1, max_size=3),
)
def test_a_damaged_certificate_never_raises_an_error(member: str, damage: dict[int, int]) -> None:
    pair: Pair = getattr(YOUNG, member)
    (whole,) = authority.read_certificates(pair.certificate)
    der = bytearray(whole.public_bytes(Encoding.DER))
    for place, value in damage.items():
        der[place % len(der)] = value
    text = base64.encodebytes(der)
    pem = b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"
    kept = replace(YOUNG, **{member: replace(pair, certificate=pem)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about numbers that a later library version will refuse
        carry_out_step(decide(kept, POLICY, NOW).step, kept, trusted=pem)


def test_the_repr_of_a_bundle_contains_no_key() -> None:
    assert "PRIVATE" not in repr(YOUNG)
    assert "CERTIFICATE" in repr(YOUNG)


def certificates(pem: bytes) -> list[bytes]:
    return [as_pem([each]) for each in authority.read_certificates(pem)]


def test_a_new_authority_precedes_the_old_one_and_the_serving_pair_stays() -> None:
    new, old = certificates(UNSETTLED.authority.certificate)
    assert old == YOUNG.authority.certificate
    assert new != old
    assert UNSETTLED.server == YOUNG.server
    assert usable(UNSETTLED, [HOST], NOW)


def test_both_authorities_are_trusted_when_the_new_one_signs() -> None:
    assert SIGNED.authority == UNSETTLED.authority
    server = authority.read_certificates(SIGNED.server.certificate)[0]
    assert authority.signed_by(server, authority.read_certificates(SIGNED.authority.certificate)[0])


def test_only_authorities_whose_overlap_is_over_are_dropped() -> None:
    over = carry_out_step(RenewalStep.DROP_OLD_AUTHORITIES, SIGNED, now=NOW + POLICY.overlap)
    assert over.authority.certificate == certificates(SIGNED.authority.certificate)[0]
    assert over.server == SIGNED.server
    early = carry_out_step(RenewalStep.DROP_OLD_AUTHORITIES, SIGNED)
    assert early == SIGNED


@pytest.mark.parametrize("step", [RenewalStep.REPLACE, RenewalStep.NEW_AUTHORITY])
def test_authorities_that_api_servers_trust_stay_trusted(step: RenewalStep) -> None:
    """If a Secret is deleted or replaced, pods still serve certificates of the old authority."""
    kept = None if step is RenewalStep.REPLACE else YOUNG
    trusted = OTHER.authority.certificate + bundle_of_age(days=100).authority.certificate
    bundle = carry_out_step(step, kept, trusted=trusted)
    _, *old = certificates(bundle.authority.certificate)
    ours = [] if kept is None else [YOUNG.authority.certificate]
    assert old == [*ours, OTHER.authority.certificate]  # without the expired one


@pytest.mark.parametrize("step", [RenewalStep.REPLACE, RenewalStep.NEW_AUTHORITY])
def test_a_clock_that_is_behind_drops_no_authority(step: RenewalStep) -> None:
    """An authority that seems not yet valid is trusted by the other parties."""
    bundle = carry_out_step(step, YOUNG, now=NOW - timedelta(days=5))
    _, old = certificates(bundle.authority.certificate)
    assert old == YOUNG.authority.certificate


@pytest.mark.parametrize("trusted", [b"", b"no PEM"], ids=["empty", "not PEM"])
def test_an_invalid_ca_bundle_is_not_trusted(trusted: bytes) -> None:
    bundle = carry_out_step(RenewalStep.REPLACE, None, trusted=trusted)
    assert len(certificates(bundle.authority.certificate)) == 1


def runs(
    kept: Bundle | None,
    policy: CertificatePolicy,
    *,
    every: timedelta,
    until: Callable[[RenewalStep], bool],
) -> list[tuple[RenewalStep, Bundle]]:
    """Run ``certs`` at each ``every``, and return the steps until ``until`` is true."""
    steps: list[tuple[RenewalStep, Bundle]] = []
    for number in count():
        now = NOW + number * every
        while (decision := decide(kept, policy, now)).step.changes:
            kept = carry_out(decision.step, kept, b"", policy, make_key=key, now=now)
            steps.append((decision.step, kept))
        if until(decision.step):
            return steps
    raise AssertionError


@pytest.mark.parametrize(
    "every", [timedelta(minutes=7), timedelta(hours=1), timedelta(days=1)], ids=str
)
def test_a_renewal_has_three_steps_and_adjacent_bundles_trust_each_other(
    every: timedelta,
) -> None:
    old = bundle_of_age(days=60)
    short_overlap = replace(POLICY, overlap=timedelta(days=1))
    steps = runs(old, short_overlap, every=every, until=lambda step: step is RenewalStep.KEEP)
    assert [step for step, _ in steps] == [
        RenewalStep.NEW_AUTHORITY,
        RenewalStep.NEW_SERVING_PAIR,
        RenewalStep.DROP_OLD_AUTHORITIES,
    ]
    bundles = [old, *(bundle for _, bundle in steps)]
    for one, next_one in pairwise(bundles):
        for trusting, served in ((one, next_one), (next_one, one)):
            (server,) = authority.read_certificates(served.server.certificate)
            trusted = authority.read_certificates(trusting.authority.certificate)
            assert any(authority.signed_by(server, each) for each in trusted)


def test_a_pair_is_renewed_before_its_last_third() -> None:
    """Admission warns in the last third. The runs are one day apart."""
    kept, now = YOUNG, NOW
    while kept.server == YOUNG.server:
        now += timedelta(days=1)
        kept = carry_out_step(decide(kept, POLICY, now).step, kept, now=now)
    (old,) = authority.read_certificates(YOUNG.server.certificate)
    assert old.not_valid_after_utc - now > LIFE / 3


def test_a_second_renewal_during_the_first_keeps_all_three_authorities() -> None:
    twice = carry_out_step(RenewalStep.NEW_AUTHORITY, UNSETTLED)
    assert len(certificates(twice.authority.certificate)) == 3
    assert decide(twice, POLICY, NOW).step is RenewalStep.WAIT
    assert usable(twice, [HOST], NOW)
