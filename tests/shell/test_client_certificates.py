"""The webhook's callers with a client certificate, without one, and with a foreign one."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

import asgi
from admission.app import SELF_CHECK_PATH, webhook_app
from admission.metrics import AdmissionMetrics
from admission.pod_reviews import ReviewPolicy
from admission.reviewer import Reviewer
from admission.tls import KeyPair
from certificates import new_bundle, write_pair
from certs import authority
from common import certificates
from common.errors import ConfigError
from common.features import FeatureGates
from common.runtime.clock import SystemClock
from common.runtime.web_server import WebServer
from webhook_client import Connection
from webhook_harness import FakeCluster

SUBJECT = certificates.distinguished("api-server")
BOTH_AT_ONCE = x509.Name(
    [
        x509.RelativeDistinguishedName(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, "api-server"),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "cluster"),
            ]
        )
    ]
)
CLIENTS, SERVERS = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAuthority:
    """An authority that signs certificates of clients."""

    certificate: x509.Certificate
    key: certificates.PrivateKey

    @classmethod
    def new(cls) -> "ClientAuthority":
        now, key = SystemClock().now(), authority.rsa_key()
        name = certificates.distinguished("clients")
        made = certificates.self_signed(key, name, since=now, until=now + timedelta(days=1))
        return cls(certificate=made, key=key)

    def pair(
        self,
        folder: Path,
        *,
        purpose: x509.ObjectIdentifier = CLIENTS,
        subject: x509.Name = SUBJECT,
    ) -> tuple[Path, Path]:
        """Sign a client; return the files of its certificate and key."""
        now, key = SystemClock().now(), authority.rsa_key()
        made = certificates.signed(
            key,
            subject,
            issuer=self.certificate,
            signing_key=self.key,
            purposes=[purpose],
            since=now,
            until=now + timedelta(days=1),
        )
        folder.mkdir()
        files = folder / "client.pem", folder / "client-key.pem"
        files[0].write_bytes(certificates.as_pem([made]))
        files[1].write_bytes(certificates.private_pem(key))
        return files

    def write(self, file: Path) -> Path:
        file.write_bytes(certificates.as_pem([self.certificate]))
        return file


@pytest.fixture(scope="module")
def bundle() -> authority.Bundle:
    return new_bundle()


@pytest.fixture(scope="module")
def clients() -> ClientAuthority:
    return ClientAuthority.new()


def webhook(*, registry: CollectorRegistry | None = None) -> FastAPI:
    metrics = AdmissionMetrics(registry or CollectorRegistry())
    reviewer = Reviewer(FakeCluster(), ReviewPolicy(features=FeatureGates.parse("")), metrics)
    return webhook_app(reviewer, metrics, callers_need_certificate=True)


@asynccontextmanager
async def serving(pair: KeyPair, app: FastAPI) -> AsyncIterator[int]:
    server = WebServer(
        app, "127.0.0.1:0", name="webhook", ssl_context_factory=lambda *_: pair.context
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.run())
        yield server.port
        running.cancel()


def key_pair(folder: Path, bundle: authority.Bundle, clients: ClientAuthority) -> KeyPair:
    file = clients.write(folder / "clients.pem")
    return KeyPair(*write_pair(folder, bundle.server), client_authority=file)


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(SUBJECT, id="one name"),
        pytest.param(BOTH_AT_ONCE, id="two names in one part"),
        pytest.param(x509.Name([]), id="no name"),
    ],
)
async def test_a_caller_with_a_certificate_gets_a_response(
    tmp_path: Path, bundle: authority.Bundle, clients: ClientAuthority, subject: x509.Name
) -> None:
    own = clients.pair(tmp_path / "client", subject=subject)
    trusted = bundle.authority.certificate
    async with (
        serving(key_pair(tmp_path, bundle, clients), webhook()) as port,
        Connection.to(port, trusted, pair=own) as connection,
    ):
        assert (await connection.send(b"{}"))[0] == 200


async def test_a_caller_without_one_is_refused_and_counted(
    tmp_path: Path, bundle: authority.Bundle, clients: ClientAuthority
) -> None:
    registry, trusted = CollectorRegistry(), bundle.authority.certificate
    async with (
        serving(key_pair(tmp_path, bundle, clients), webhook(registry=registry)) as port,
        Connection.to(port, trusted) as connection,
    ):
        assert await connection.send(b"{}") == (403, b"no client certificate\n")
    labels = {"resource": "unknown", "outcome": "refused"}
    counted = registry.get_sample_value("vpa_admission_controller_reviews_total", labels)
    assert counted == 1


@pytest.mark.parametrize("purpose", [CLIENTS, SERVERS], ids=["another authority", "a server"])
async def test_a_certificate_that_is_not_for_clients_ends_the_handshake(
    tmp_path: Path,
    bundle: authority.Bundle,
    clients: ClientAuthority,
    purpose: x509.ObjectIdentifier,
) -> None:
    signer = ClientAuthority.new() if purpose == CLIENTS else clients
    other, trusted = signer.pair(tmp_path / "client", purpose=purpose), bundle.authority.certificate
    async with serving(key_pair(tmp_path, bundle, clients), webhook()) as port:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with Connection.to(port, trusted, pair=other) as connection:
                await connection.send(b"{}")


async def test_a_new_authority_applies_from_the_next_handshake(
    tmp_path: Path, bundle: authority.Bundle, clients: ClientAuthority
) -> None:
    pair, new = key_pair(tmp_path, bundle, clients), ClientAuthority.new()
    assert tmp_path / "clients.pem" in pair.files
    before, after = clients.pair(tmp_path / "before"), new.pair(tmp_path / "after")
    trusted = bundle.authority.certificate
    async with serving(pair, webhook()) as port:
        new.write(tmp_path / "clients.pem")
        pair.reload()
        async with Connection.to(port, trusted, pair=after) as connection:
            assert (await connection.send(b"{}"))[0] == 200
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with Connection.to(port, trusted, pair=before) as connection:
                await connection.send(b"{}")


async def test_the_self_check_needs_none(
    tmp_path: Path, bundle: authority.Bundle, clients: ClientAuthority
) -> None:
    trusted = bundle.authority.certificate
    async with (
        serving(key_pair(tmp_path, bundle, clients), webhook()) as port,
        Connection.to(port, trusted) as connection,
    ):
        assert (await connection.send(b"{}", path=SELF_CHECK_PATH))[0] == 200


CALLERS = [
    pytest.param("10.0.0.1", SELF_CHECK_PATH, 403, id="the path of the self-check from elsewhere"),
    pytest.param("::ffff:10.0.0.1", SELF_CHECK_PATH, 403, id="the same, on a dual-stack socket"),
    pytest.param(
        "::ffff:127.0.0.1", SELF_CHECK_PATH, 200, id="the self-check, on a dual-stack socket"
    ),
    pytest.param("::1", SELF_CHECK_PATH, 200, id="the self-check by IPv6"),
    pytest.param("127.0.0.1", "/", 403, id="another path from this pod"),
]


@pytest.mark.parametrize(("address", "path", "status"), CALLERS)
async def test_only_the_self_check_needs_no_certificate(
    address: str, path: str, status: int
) -> None:
    scope = asgi.scope_of("POST", path, {"content_type": "application/json"})
    scope["client"] = (address, 1)
    assert (await asgi.call(webhook(), scope, asgi.pieces(b"{}"))).status == status


@pytest.mark.parametrize("content", [None, b"no certificate"], ids=["missing", "garbage"])
def test_an_unreadable_authority_is_a_one_line_error(
    tmp_path: Path, bundle: authority.Bundle, content: bytes | None
) -> None:
    file = tmp_path / "clients.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"can't (read|use) .*clients\.pem"):
        KeyPair(*write_pair(tmp_path, bundle.server), client_authority=file)
