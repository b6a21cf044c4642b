"""The webhook's key pair: invalid files, and reloading."""

import asyncio
import os
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from admission.tls import FileWatch, KeyPair, follow, follow_authority, read_bundle
from certificates import write_pair
from certs import authority
from common.errors import ConfigError
from common.runtime.clock import SystemClock
from controlplane.containers.folders import File, write_volume
from sandbox import virtual_time

NOW = SystemClock().now()  # the clock of the TLS handshake can't be set
KEYS = [authority.rsa_key() for _ in range(4)]


def bundle(first: int) -> authority.Bundle:
    """Return a bundle with keys of KEYS, because generating keys is slow."""
    keys = iter(KEYS[first : first + 2])
    return authority.create(
        ["127.0.0.1", "localhost"],
        make_key=lambda: next(keys),
        now=NOW,
        lifetime=timedelta(days=1),
    )


OLD, NEW = bundle(0), bundle(2)


async def served_certificate(pair: KeyPair, *, server_name: str | None = "localhost") -> bytes:
    """Return the certificate that a client gets in a handshake, as PEM."""

    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0, ssl=pair.context)
    client = ssl.create_default_context()
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname=server_name or ""
        )
        seen = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
    return ssl.DER_cert_to_PEM_cert(seen).encode()


async def test_after_a_reload_new_handshakes_get_the_new_certificate(tmp_path: Path) -> None:
    pair = KeyPair(*write_pair(tmp_path, OLD.server))
    assert await served_certificate(pair) == OLD.server.certificate

    write_pair(tmp_path, NEW.server)
    assert await served_certificate(pair) == OLD.server.certificate

    pair.reload()
    assert await served_certificate(pair) == NEW.server.certificate


async def test_a_client_without_a_host_name_gets_the_new_certificate(tmp_path: Path) -> None:
    pair = KeyPair(*write_pair(tmp_path, OLD.server))
    write_pair(tmp_path, NEW.server)
    pair.reload()
    assert await served_certificate(pair, server_name=None) == NEW.server.certificate


async def test_a_mismatched_pair_keeps_the_old_certificate(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path, OLD.server)
    pair = KeyPair(certificate, key)
    certificate.write_bytes(NEW.server.certificate)  # the key is still the old one
    with pytest.raises(ConfigError, match="mismatch"):
        pair.reload()
    assert await served_certificate(pair) == OLD.server.certificate


def test_a_missing_file_raises_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't read .*nothing.* No such file"):
        KeyPair(tmp_path / "nothing.pem", tmp_path / "nothing.key")


def test_an_invalid_certificate_is_refused(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path, OLD.server)
    certificate.write_text("not a certificate")
    with pytest.raises(ConfigError, match="can't use"):
        KeyPair(certificate, key)


def test_an_encrypted_key_is_refused_without_a_passphrase_prompt(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path, OLD.server)
    key.write_bytes(
        KEYS[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ConfigError, match="encrypted"):
        KeyPair(certificate, key)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("", ssl.TLSVersion.TLSv1_2),
        ("tls1_2", ssl.TLSVersion.TLSv1_2),
        ("tls1_3", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_the_minimum_tls_version(tmp_path: Path, name: str, version: ssl.TLSVersion) -> None:
    pair = KeyPair(*write_pair(tmp_path, OLD.server), min_version=name)
    assert pair.context.minimum_version is version


def test_an_unknown_tls_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tls1_1"):
        KeyPair(*write_pair(tmp_path, OLD.server), min_version="tls1_1")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", 1, id="one name"),
        pytest.param(
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            2,
            id="separated by a comma",
        ),
        pytest.param(
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            2,
            id="separated by a colon",
        ),
        pytest.param("SPELLED_WRONG,TLS_RSA_WITH_AES_128_GCM_SHA256", 1, id="unknown ignored"),
    ],
)
def test_ciphers_by_iana_name(tmp_path: Path, text: str, wanted: int) -> None:
    pair = KeyPair(*write_pair(tmp_path, OLD.server), ciphers=text)
    names = [cipher["name"] for cipher in pair.context.get_ciphers()]
    assert sum(not name.startswith("TLS_") for name in names) == wanted


def test_without_a_known_cipher_the_library_s_defaults_are_used(tmp_path: Path) -> None:
    files = write_pair(tmp_path, OLD.server)
    ours = KeyPair(*files, ciphers="SPELLED_WRONG").context.get_ciphers()
    assert ours == KeyPair(*files).context.get_ciphers()


def test_an_update_of_a_secret_volume_is_detected(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "serverCert.pem").write_text(name)
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "serverCert.pem").symlink_to("..data/serverCert.pem")
    watch = FileWatch(tmp_path / "serverCert.pem")
    assert not watch.changed()

    (tmp_path / "..tmp").symlink_to("second")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert watch.changed()
    assert not watch.changed()


def test_a_file_that_is_deleted_and_created_again_changes_twice(tmp_path: Path) -> None:
    file = tmp_path / "caCert.pem"
    file.write_text("one")
    watch = FileWatch(file)
    file.unlink()
    assert watch.changed()
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    assert watch.changed()


def test_an_unreadable_bundle_is_empty(tmp_path: Path) -> None:
    assert read_bundle(tmp_path / "nothing") == b""


async def test_a_certificate_of_cert_manager_is_served(tmp_path: Path) -> None:
    """It has other file names, an elliptic curve key, and the chain in one file."""
    made = authority.create(
        ["localhost"],
        make_key=lambda: ec.generate_private_key(ec.SECP256R1()),
        now=NOW,
        lifetime=timedelta(days=7),
    )
    chain = made.server.certificate + made.authority.certificate
    volume = {"tls.crt": chain, "tls.key": made.server.key, "ca.crt": made.authority.certificate}
    write_volume(tmp_path, {name: File(content) for name, content in volume.items()})
    pair = KeyPair(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert await served_certificate(pair) == made.server.certificate
    assert pair.valid_at(NOW)
    assert not pair.valid_at(NOW + timedelta(days=7))


def shown(pair: KeyPair) -> bytes:
    assert pair.certificate is not None
    return pair.certificate.public_bytes(serialization.Encoding.PEM)


def test_a_new_volume_is_loaded_within_two_seconds(tmp_path: Path) -> None:
    def show(made: authority.Bundle) -> None:
        files = {"cert": File(made.server.certificate), "key": File(made.server.key)}
        write_volume(tmp_path, files)

    async def main(_clock: object) -> None:
        show(OLD)
        pair = KeyPair(tmp_path / "cert", tmp_path / "key")
        following = asyncio.create_task(follow(pair))
        for made in (NEW, OLD, NEW):
            await asyncio.sleep(2)
            show(made)
            await asyncio.sleep(2)
            assert shown(pair) == made.server.certificate
        following.cancel()

    virtual_time.run(main)


def test_a_file_that_was_replaced_before_the_watch_is_loaded(tmp_path: Path) -> None:
    async def main(_clock: object) -> None:
        pair = KeyPair(*write_pair(tmp_path, OLD.server))
        write_pair(tmp_path, NEW.server)
        following = asyncio.create_task(follow(pair))
        await asyncio.sleep(2)
        assert shown(pair) == NEW.server.certificate
        following.cancel()

    virtual_time.run(main)


def test_invalid_files_are_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main(_clock: object) -> None:
        certificate, key = write_pair(tmp_path, OLD.server)
        pair = KeyPair(certificate, key)
        following = asyncio.create_task(follow(pair))
        await asyncio.sleep(2)
        certificate.write_bytes(NEW.server.certificate)
        key.write_bytes(b" " * len(NEW.server.key))
        written = key.stat().st_mtime_ns
        await asyncio.sleep(10)
        assert shown(pair) == OLD.server.certificate
        key.write_bytes(NEW.server.key)
        os.utime(
            key, ns=(written, written)
        )  # only another attempt finds out that the files are valid now
        await asyncio.sleep(2)
        assert shown(pair) == NEW.server.certificate
        following.cancel()

    virtual_time.run(main)
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert errors == ["keeping the old certificate"]


def test_an_empty_ca_file_is_ignored(tmp_path: Path) -> None:
    file, bundles = tmp_path / "caCert.pem", list[bytes]()

    async def record_bundle() -> None:
        bundles.append(file.read_bytes())

    async def main(_clock: object) -> None:
        file.write_bytes(OLD.authority.certificate)
        following = asyncio.create_task(follow_authority(file, record_bundle))
        for content in (b"", NEW.authority.certificate):
            await asyncio.sleep(2)
            file.write_bytes(content)
        await asyncio.sleep(2)
        following.cancel()

    virtual_time.run(main)
    assert bundles == [NEW.authority.certificate]
