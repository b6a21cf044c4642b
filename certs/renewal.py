"""Decisions about certificates: which step of a renewal is next, and its result.

An authority is replaced in three steps, so that no call fails in between. Each step writes one
complete bundle. Readers have time to load it before the next step:

1. A new authority is published beside the old one, which still signs the serving pair.
2. After the settle time the new authority signs the serving pair. Both are still trusted.
3. When the old pair is no longer served, the old authority is dropped.

A process can be one step behind: an admission pod whose volume has not changed yet, and that writes
its CA file to the webhook configuration. It and a process one step ahead trust each other.

The issuers and dates of the certificates determine the current step; no other state is stored.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from certs import authority
from certs.authority import SKEW, Bundle, KeyMaker, Pair
from common.certificates import as_pem, forbidden

# Share of the lifetime. Admission warns when a third is left, so renewal starts before that.
_DUE = 0.4
_NEXT_RUN = timedelta(days=1)  # longest time between two runs by hand or by a scheduler


class RenewalStep(enum.StrEnum):
    """The next step; the value is its name in the log."""

    REPLACE = "replace"  # the bundle is unusable: create authority and serving pair
    NEW_AUTHORITY = "new_authority"
    NEW_SERVING_PAIR = "new_serving_pair"
    DROP_OLD_AUTHORITIES = "drop_old_authorities"
    WAIT = "wait"  # a later run continues
    KEEP = "keep"

    @property
    def changes(self) -> bool:
        return self not in (RenewalStep.WAIT, RenewalStep.KEEP)

    @property
    def trusts_what_is_kept(self) -> bool:
        """Return whether API servers have to trust what is kept before this step is taken."""
        return self in (RenewalStep.NEW_SERVING_PAIR, RenewalStep.WAIT, RenewalStep.KEEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalDecision:
    """The next step, and the reason for the log."""

    step: RenewalStep
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePolicy:
    """The operator's settings for the certificates."""

    hosts: Sequence[str]  # of the serving certificate
    lifetime: timedelta = timedelta(days=3650)
    settle: timedelta = timedelta(minutes=10)  # from step 1 to step 2
    overlap: timedelta = timedelta(days=30)  # from step 2 to step 3
    forced: bool = False  # start with step 1, however long the authority is still valid


def usable(bundle: Bundle, hosts: Sequence[str], now: datetime) -> bool:
    """Return whether ``bundle`` can serve ``hosts`` and can be renewed at ``now``."""
    return not (
        _trouble_with_authority(bundle, hosts, now) or _trouble_with_server(bundle, hosts, now)
    )


def decide(kept: Bundle | None, policy: CertificatePolicy, now: datetime) -> RenewalDecision:
    """Return the next step and its reason.

    Replace an unusable certificate at once, and renew one that has less than two fifths of its
    lifetime left. Bytes that aren't PEM count as an unusable certificate; they raise no error.
    """
    if kept is None:
        return RenewalDecision(step=RenewalStep.REPLACE, reason="there is none")
    no_authority = _trouble_with_authority(kept, policy.hosts, now)
    no_server = _trouble_with_server(kept, policy.hosts, now)
    if no_server:
        step = RenewalStep.REPLACE if no_authority else RenewalStep.NEW_SERVING_PAIR
        return RenewalDecision(step=step, reason=no_server)
    if no_authority:
        return RenewalDecision(step=RenewalStep.NEW_AUTHORITY, reason=no_authority)
    newest, *old = authority.read_certificates(kept.authority.certificate)
    (server,) = authority.read_certificates(kept.server.certificate)[:1]
    if policy.forced:
        return RenewalDecision(step=RenewalStep.NEW_AUTHORITY, reason="it was asked for")
    if now >= _due_at(newest):
        return RenewalDecision(
            step=RenewalStep.NEW_AUTHORITY, reason=f"the authority {_expires(newest)}"
        )
    if not authority.signed_by(server, newest):
        return _follow_authority(newest, old, server, policy, now)
    if now >= _due_at(server):
        reason = f"the serving certificate {_expires(server)}"
        return RenewalDecision(step=RenewalStep.NEW_SERVING_PAIR, reason=reason)
    if old:
        return _part_with(old, server, policy, now)
    soonest = min(_due_at(newest), _due_at(server))
    return RenewalDecision(step=RenewalStep.KEEP, reason=f"nothing is due before {_at(soonest)}")


def carry_out(
    step: RenewalStep,
    kept: Bundle | None,
    trusted: bytes,
    policy: CertificatePolicy,
    *,
    make_key: KeyMaker,
    now: datetime,
) -> Bundle:
    """Return the bundle after ``step``; ``trusted`` are the authorities trusted now, as PEM.

    A new authority precedes all trusted ones that have not expired, so that pods which still
    serve an older pair stay trusted. Authorities that aren't valid yet are kept, too: the local
    clock may be behind.

    Raises:
        ValueError: there are no hosts, or one is neither a DNS name nor an address.
    """

    def serving(issuer: Pair) -> Pair:
        return authority.issue(
            issuer, policy.hosts, make_key=make_key, now=now, lifetime=policy.lifetime
        )

    if kept is None or step in (RenewalStep.REPLACE, RenewalStep.NEW_AUTHORITY):
        made = authority.create_authority(
            policy.hosts, make_key=make_key, now=now, lifetime=policy.lifetime
        )
        before = (kept.authority.certificate if kept else b"", trusted)
        old = dict.fromkeys(each for pem in before for each in _not_expired(pem, now))
        both = Pair(key=made.key, certificate=made.certificate + as_pem(old))
        if kept is None or step is RenewalStep.REPLACE:
            return Bundle(authority=both, server=serving(both))
        return Bundle(authority=both, server=kept.server)
    if step is RenewalStep.NEW_SERVING_PAIR:
        return Bundle(authority=kept.authority, server=serving(kept.authority))
    if step is RenewalStep.DROP_OLD_AUTHORITIES:
        newest, *older = authority.read_certificates(kept.authority.certificate)
        (server,) = authority.read_certificates(kept.server.certificate)[:1]
        left = [] if _overlap_is_over(server, policy, now) else older
        valid = (each for each in left if now < each.not_valid_after_utc)
        pem = as_pem([newest, *valid])
        return Bundle(authority=Pair(key=kept.authority.key, certificate=pem), server=kept.server)
    return kept


def _follow_authority(
    newest: x509.Certificate,
    old: Sequence[x509.Certificate],
    server: x509.Certificate,
    policy: CertificatePolicy,
    now: datetime,
) -> RenewalDecision:
    """Sign with the new authority after the settle time, or earlier if the old pair expires."""
    settled = newest.not_valid_before_utc + SKEW + policy.settle
    if now >= settled:
        return RenewalDecision(
            step=RenewalStep.NEW_SERVING_PAIR, reason="the new authority has settled"
        )
    signers = (each.not_valid_after_utc for each in old if authority.signed_by(server, each))
    end = min(server.not_valid_after_utc, max(signers, default=now))
    if end < settled + _NEXT_RUN:
        reason = f"no time to settle: the serving pair expires at {_at(end)}"
        return RenewalDecision(step=RenewalStep.NEW_SERVING_PAIR, reason=reason)
    return RenewalDecision(
        step=RenewalStep.WAIT, reason=f"the new authority settles until {_at(settled)}"
    )


def _part_with(
    old: Sequence[x509.Certificate],
    server: x509.Certificate,
    policy: CertificatePolicy,
    now: datetime,
) -> RenewalDecision:
    if _overlap_is_over(server, policy, now):
        reason = "the old authority is no longer needed"
        return RenewalDecision(step=RenewalStep.DROP_OLD_AUTHORITIES, reason=reason)
    if any(now >= each.not_valid_after_utc for each in old):
        return RenewalDecision(
            step=RenewalStep.DROP_OLD_AUTHORITIES, reason="an old authority has expired"
        )
    until = server.not_valid_before_utc + SKEW + policy.overlap
    return RenewalDecision(
        step=RenewalStep.WAIT, reason=f"the old authority stays until {_at(until)}"
    )


def _overlap_is_over(server: x509.Certificate, policy: CertificatePolicy, now: datetime) -> bool:
    return now >= server.not_valid_before_utc + SKEW + policy.overlap


def _trouble_with_authority(bundle: Bundle, hosts: Sequence[str], now: datetime) -> str:
    """Return why the authority can't sign for ``hosts``; empty if it can."""
    try:
        newest = authority.read_certificates(bundle.authority.certificate)[0]
        key = authority.read_key(bundle.authority.key)
    except ValueError as error:
        return f"the authority can't be read: {error}"
    if key.public_key() != newest.public_key():
        return "the authority's key does not belong to its certificate"
    if not authority.may_sign(newest):
        return "the certificate of the authority may sign no certificates"
    if missing := forbidden(newest, hosts):
        return f"the authority may not sign for {', '.join(missing)}"
    return _out_of_date("authority", newest, now)


def _trouble_with_server(bundle: Bundle, hosts: Sequence[str], now: datetime) -> str:
    """Return why the serving pair can't serve ``hosts``; empty if it can."""
    try:
        server = authority.read_certificates(bundle.server.certificate)[0]
        key = authority.read_key(bundle.server.key)
        missing = authority.lacking(server, hosts)
    except ValueError as error:
        return f"the serving pair can't be read: {error}"
    if key.public_key() != server.public_key():
        return "the serving key does not belong to the serving certificate"
    if not authority.may_serve(server):
        return "the serving certificate is not for servers"
    if not any(
        authority.signed_by(server, each) for each in _valid(bundle.authority.certificate, now)
    ):
        return "the serving certificate was not signed by a valid authority"
    if missing:
        return f"the serving certificate lacks {', '.join(missing)}"
    return _out_of_date("serving certificate", server, now)


def _out_of_date(noun: str, certificate: x509.Certificate, now: datetime) -> str:
    if now < certificate.not_valid_before_utc:
        return f"the {noun} is not valid before {_at(certificate.not_valid_before_utc)}"
    if now >= certificate.not_valid_after_utc:
        return f"the {noun} has expired at {_at(certificate.not_valid_after_utc)}"
    return ""


def _valid(pem: bytes, now: datetime) -> Iterator[x509.Certificate]:
    return (each for each in _not_expired(pem, now) if each.not_valid_before_utc <= now)


def _not_expired(pem: bytes, now: datetime) -> Iterator[x509.Certificate]:
    try:
        found = authority.read_certificates(pem)
    except ValueError:
        return
    for each in found:
        if now < each.not_valid_after_utc:
            yield each


def _due_at(certificate: x509.Certificate) -> datetime:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - _DUE * (end - begin)


def _expires(certificate: x509.Certificate) -> str:
    return f"expires at {_at(certificate.not_valid_after_utc)}"


def _at(moment: datetime) -> str:
    return f"{moment:%F %T} UTC"
