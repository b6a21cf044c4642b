"""The stores of certificates, and when their certificates are replaced."""

import base64
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from certs import authority, certificate_stores
from certs.authority import Bundle, KeyMaker
from certs.renewal import CertificatePolicy
from certs.trust import CaBundleStore
from common.errors import ConfigError, ConflictError, ForbiddenError, NotFoundError
from common.kube.client import PatchType

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
POLICY = CertificatePolicy(hosts=["vpa-webhook.vpa.svc"], lifetime=timedelta(days=100))


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def no_key() -> ec.EllipticCurvePrivateKey:
    raise AssertionError("nothing has to be created")


def bundle(*, host: str = POLICY.hosts[0], days: float = 0) -> Bundle:
    """Return a bundle that was created ``days`` ago."""
    now = NOW - timedelta(days=days)
    return authority.create([host], make_key=make_key, now=now, lifetime=POLICY.lifetime)


OLD, NEW, EXPIRED = bundle(), bundle(), bundle(days=100)


class FakeTrust:
    """The CA bundle of the webhook and its changes; without a webhook writes have no effect."""

    def __init__(self, bundle: bytes = b"", *, webhook: bool = True) -> None:
        self.bundle = bundle
        self.webhook = webhook
        self.written: list[bytes] = []

    async def read(self) -> bytes:
        return self.bundle

    async def write(self, bundle: bytes) -> None:
        if self.webhook and bundle != self.bundle:
            self.written.append(bundle)
            self.bundle = bundle


async def ensure(
    *stores: certificate_stores.Store,
    trust: CaBundleStore | None = None,
    policy: CertificatePolicy = POLICY,
    make_key: KeyMaker = make_key,
    after: timedelta = timedelta(),
) -> Bundle:
    bundle, _ = await certificate_stores.ensure(
        stores, trust or FakeTrust(), policy, make_key=make_key, now=NOW + after
    )
    return bundle


class FakeClient:
    """Stores one Secret, and counts the writes."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.there: dict[str, Any] | None = (
            None if data is None else {"metadata": {"resourceVersion": "1"}, "data": data}
        )
        self.writes = 0
        self.meanwhile: Bundle | None = None  # written by another process just before our write
        self.vanishes = False  # the Secret is deleted just before our write
        self.may_create = True

    async def get(self, _endpoint: object, name: str, *, namespace: str) -> dict[str, Any]:
        if self.there is None:
            raise NotFoundError(f"{namespace}/{name}")
        return self.there

    async def create(
        self, _endpoint: object, body: dict[str, Any], *, namespace: str
    ) -> dict[str, Any]:
        assert namespace == body["metadata"]["namespace"]
        if not self.may_create:
            raise ForbiddenError("secrets is forbidden")
        self._interfere()
        if self.there is not None:
            raise ConflictError("exists")
        return self._keep(body["data"])

    async def patch(
        self,
        _endpoint: object,
        _name: str,
        patch: dict[str, Any],
        *,
        patch_type: PatchType,
        namespace: str,
    ) -> dict[str, Any]:
        assert (patch_type, namespace) == (PatchType.MERGE, "vpa")
        self._interfere()
        if self.there is None:
            raise NotFoundError("vpa/vpa-tls-certs")
        if patch["metadata"]["resourceVersion"] != self.there["metadata"]["resourceVersion"]:
            raise ConflictError("changed")
        return self._keep(patch["data"])

    def _interfere(self) -> None:
        if self.meanwhile is not None:
            self._keep(encoded(self.meanwhile))
            self.meanwhile = None
        if self.vanishes:
            self.there, self.vanishes = None, False

    def _keep(self, data: dict[str, str]) -> dict[str, Any]:
        self.writes += 1
        self.there = {"metadata": {"resourceVersion": f"w{self.writes}"}, "data": data}
        return self.there


def encoded(kept: Bundle) -> dict[str, str]:
    members = {
        "caKey.pem": kept.authority.key,
        "caCert.pem": kept.authority.certificate,
        "serverKey.pem": kept.server.key,
        "serverCert.pem": kept.server.certificate,
    }
    return {name: base64.b64encode(raw).decode() for name, raw in members.items()}


def secret(client: Any) -> certificate_stores.Secret:
    return certificate_stores.Secret(client, "vpa", "vpa-tls-certs")


async def test_a_directory_gets_four_files_with_private_keys(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "certs"
    made = await ensure(certificate_stores.Directory(folder))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == {
        "caKey.pem": 0o600,
        "caCert.pem": 0o644,
        "serverKey.pem": 0o600,
        "serverCert.pem": 0o644,
    }
    assert await certificate_stores.Directory(folder).load() == made


async def test_a_good_pair_is_kept(tmp_path: Path) -> None:
    folder = certificate_stores.Directory(tmp_path)
    await folder.save(OLD)
    assert await ensure(folder, make_key=no_key) == OLD


async def test_a_bad_pair_is_replaced(tmp_path: Path) -> None:
    folder = certificate_stores.Directory(tmp_path)
    await folder.save(EXPIRED)
    made = await ensure(folder)
    assert made not in (EXPIRED, OLD)
    assert await folder.load() == made


async def test_an_incomplete_directory_is_completed(tmp_path: Path) -> None:
    folder = certificate_stores.Directory(tmp_path)
    await folder.save(OLD)
    (tmp_path / "serverKey.pem").unlink()
    made = await ensure(folder)
    assert made.authority == OLD.authority
    assert made.server != OLD.server
    assert await folder.load() == made


async def test_an_empty_directory_has_no_bundle(tmp_path: Path) -> None:
    assert await certificate_stores.Directory(tmp_path).load() is None


async def test_an_incomplete_secret_is_completed() -> None:
    left = encoded(OLD)
    del left["caKey.pem"]
    made = await ensure(secret(FakeClient(left)))
    assert made.server == OLD.server
    assert made.authority.certificate.endswith(OLD.authority.certificate)


async def test_a_directory_that_cannot_be_written_raises_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="can't write directory"):
        await certificate_stores.Directory(tmp_path / "file").save(NEW)


async def test_a_secret_is_created() -> None:
    client = FakeClient()
    made = await ensure(secret(client))
    assert client.there is not None
    assert client.there["data"] == encoded(made)


async def test_an_account_that_may_not_create_the_secret_names_the_manifest() -> None:
    client = FakeClient()
    client.may_create = False
    with pytest.raises(ConfigError, match=r"not there.*apply the manifests again.*is forbidden"):
        await ensure(secret(client))


async def test_a_good_secret_is_not_written() -> None:
    client = FakeClient(encoded(OLD))
    assert await ensure(secret(client), make_key=no_key) == OLD
    assert client.writes == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="empty"),
        pytest.param({"caKey.pem": "!!!"}, id="not base64"),
        pytest.param({"ca": "", "cert": "", "key": ""}, id="keys of another program"),
    ],
)
async def test_an_invalid_secret_is_overwritten(data: dict[str, str]) -> None:
    client = FakeClient(data)
    made = await ensure(secret(client))
    assert client.there is not None
    assert client.there["data"] == encoded(made)


@pytest.mark.parametrize("data", [None, encoded(EXPIRED)], ids=["created", "changed"])
async def test_the_first_of_two_processes_wins(data: dict[str, str] | None) -> None:
    client = FakeClient(data)
    client.meanwhile = NEW
    trust = FakeTrust()
    assert await ensure(secret(client), trust=trust) == NEW
    assert client.there is not None
    assert client.there["data"] == encoded(NEW)
    assert trust.written == [NEW.authority.certificate]


async def test_a_secret_that_is_deleted_before_the_write_is_created() -> None:
    client = FakeClient(encoded(EXPIRED))
    client.vanishes = True
    made = await ensure(secret(client))
    assert client.there is not None
    assert client.there["data"] == encoded(made)


async def test_a_directory_gets_the_bundle_of_the_secret(tmp_path: Path) -> None:
    client, folder = FakeClient(encoded(OLD)), certificate_stores.Directory(tmp_path)
    await folder.save(NEW)
    await ensure(secret(client), folder, make_key=no_key)
    assert await folder.load() == OLD
    assert client.writes == 0


async def test_an_expired_secret_gets_the_bundle_of_the_directory(tmp_path: Path) -> None:
    client, folder = FakeClient(encoded(EXPIRED)), certificate_stores.Directory(tmp_path)
    await folder.save(OLD)
    await ensure(secret(client), folder, make_key=no_key)
    assert client.there is not None
    assert client.there["data"] == encoded(OLD)


async def test_the_webhook_gets_the_kept_authority() -> None:
    trust = FakeTrust()
    await ensure(secret(FakeClient(encoded(OLD))), trust=trust, make_key=no_key)
    assert trust.written == [OLD.authority.certificate]
    await ensure(secret(FakeClient(encoded(OLD))), trust=trust, make_key=no_key)
    assert trust.written == [OLD.authority.certificate]


async def test_without_a_webhook_no_ca_bundle_is_written() -> None:
    trust = FakeTrust(webhook=False)
    assert await ensure(secret(FakeClient(encoded(OLD))), trust=trust) == OLD


class RecordingStore:
    """A store that records the CA bundle of the webhook at each save."""

    def __init__(self, kept: Bundle, trust: FakeTrust) -> None:
        self.kept = kept
        self.trust = trust
        self.saved: list[tuple[bytes, Bundle]] = []

    async def load(self) -> Bundle:
        return self.kept

    async def save(self, bundle: Bundle) -> None:
        self.saved.append((self.trust.bundle, bundle))
        self.kept = bundle


async def test_a_renewal_updates_the_webhook_first_and_drops_the_old_authority_last() -> None:
    trust = FakeTrust(OLD.authority.certificate)
    kept = RecordingStore(OLD, trust)
    await ensure(kept, trust=trust, policy=replace(POLICY, forced=True))
    ((_, beside),) = kept.saved
    both = beside.authority.certificate
    assert beside.server == OLD.server
    assert trust.bundle == both

    trust.bundle = OLD.authority.certificate  # a pod wrote the file of an outdated volume
    await ensure(kept, trust=trust, after=POLICY.settle)
    _, (trusted, signed) = kept.saved
    assert trusted == both
    assert signed.server != OLD.server
    assert signed.authority == beside.authority

    await ensure(kept, trust=trust, after=POLICY.settle + POLICY.overlap)
    *_, (_, last) = kept.saved
    assert last.server == signed.server
    assert both == last.authority.certificate + OLD.authority.certificate
    assert trust.bundle == last.authority.certificate


async def test_a_forced_renewal_starts_once() -> None:
    kept = RecordingStore(OLD, FakeTrust())
    await ensure(kept, policy=replace(POLICY, forced=True))
    assert len(kept.saved) == 1


async def test_after_the_deletion_of_a_secret_the_old_authority_stays_trusted() -> None:
    trust = FakeTrust(OLD.authority.certificate)
    made = await ensure(secret(FakeClient()), trust=trust)
    assert made.authority.certificate.endswith(OLD.authority.certificate)
    assert trust.written == [made.authority.certificate]
