"""The configuration of the client: kubeconfigs and service accounts, valid and invalid."""

import asyncio
import base64
import datetime as dt
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from common.errors import ConfigError
from common.kube.client import KubeClient
from common.kube.config import in_pod, load
from common.kube.endpoints import PODS
from fake_api import FakeApi, Reply, named, status
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock


def authority() -> tuple[str, str]:
    """Return a self-signed certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(pem).decode(), private.decode()


CERTIFICATE, KEY = authority()
DATA = base64.b64encode(CERTIFICATE.encode()).decode()
KEY_DATA = base64.b64encode(KEY.encode()).decode()
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(
        user: dict[str, Any] | None = None,
        *,
        server: str = "https://127.0.0.1:6443",
        **cluster: Any,
    ) -> str:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": user or {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return written


async def test_a_token_and_an_authority(write: Write) -> None:
    connection = await load(write({"token": "abc"}, **{"certificate-authority-data": DATA}))
    assert connection.base_url == "https://127.0.0.1:6443"
    assert await connection.headers() == {"Authorization": "Bearer abc"}
    assert connection.ssl_context is not None
    assert connection.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert len(connection.ssl_context.get_ca_certs()) == 1
    assert "abc" not in repr(connection)


async def test_a_client_certificate_needs_no_header(write: Write, tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_text(CERTIFICATE)
    (tmp_path / "tls.key").write_text(KEY)
    by_file = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    by_data = {"client-certificate-data": DATA, "client-key-data": KEY_DATA}
    for user in (by_file, by_data):
        connection = await load(write(user, **{"certificate-authority-data": DATA}))
        assert await connection.headers() == {}


async def test_no_private_key_is_left_behind(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    user = {"client-certificate-data": DATA, "client-key-data": KEY_DATA}
    await load(write(user, **{"certificate-authority-data": DATA}))
    await load(write(user, **{"certificate-authority-data": DATA}))
    assert list(elsewhere.iterdir()) == []


async def test_insecure_skip_tls_verify(write: Write) -> None:
    options = {"insecure-skip-tls-verify": True, "tls-server-name": "kubernetes"}
    connection = await load(write({"token": "abc"}, **options))
    assert connection.ssl_context is not None
    assert connection.ssl_context.verify_mode is ssl.CERT_NONE
    assert connection.server_hostname == "kubernetes"


async def test_a_context_need_not_have_a_user(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "clusters: [{name: c, cluster: {server: 'https://h'}}]\n"
        "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
    )
    connection = await load(str(path))
    assert await connection.headers() == {}
    assert connection.base_url == "https://h"


async def test_a_user_with_a_password(write: Write) -> None:
    connection = await load(write({"username": "me", "password": "secret"}))
    wanted = base64.b64encode(b"me:secret").decode()
    assert await connection.headers() == {"Authorization": f"Basic {wanted}"}


async def test_an_exec_plugin_returns_the_token(write: Write, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo x >> "$(dirname "$0")/calls"\n'
        """echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'\\
'"status":{"token":"from-plugin","expirationTimestamp":"2999-01-01T00:00:00Z"}}'\n"""
    )
    plugin.chmod(0o755)
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    connection = await load(write({"exec": spec}))
    for _ in range(3):
        assert await connection.headers() == {"Authorization": "Bearer from-plugin"}
    assert (tmp_path / "calls").read_text().count("x") == 1  # it has not expired
    await connection.renew(await connection.headers())
    assert (tmp_path / "calls").read_text().count("x") == 2


async def test_a_token_file_that_rotates_is_read_again_after_a_401(
    write: Write, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with FakeApi() as api:
        path = write({"tokenFile": "token"}, server=f"http://127.0.0.1:{api.port}")
        connection = await load(path)
        token.write_text("new")
        api.on("GET /api/v1/pods/x", status(401, "Unauthorized"), Reply(body=named("x")))
        async with KubeClient(connection, user_agent="t", qps=0, burst=1) as client:
            await client.get(PODS, "x")
    assert [r.headers["Authorization"] for r in api.requests] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(None, "no such file", id="missing"),
        pytest.param("", "empty", id="empty"),
        pytest.param("{", "not YAML", id="not YAML"),
        pytest.param("just text", "not a mapping", id="text"),
        pytest.param("kind: Config\n", "no list of clusters", id="no clusters"),
        pytest.param("clusters: []\ncontexts: []\n", "current-context", id="no current context"),
        pytest.param(
            "clusters: []\ncontexts: []\ncurrent-context: x\n", "name x", id="unknown context"
        ),
        pytest.param(
            "clusters: [{name: c, cluster: 7}]\n"
            "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n",
            "",
            id="a cluster that is a number",
        ),
        pytest.param(
            "clusters: [{name: c, cluster: {server: 'localhost:8080'}}]\n"
            "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n",
            "https://host:port",
            id="a server without a scheme",
        ),
        pytest.param(
            "clusters: [{name: c, cluster: {server: 'https://h', certificate-authority: gone}}]\n"
            "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n",
            "gone",
            id="a missing authority file",
        ),
        pytest.param(
            "clusters: [{name: c, cluster: {server: 'https://h', "
            "certificate-authority-data: bm9uZQ==}}]\n"
            "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n",
            "certificate",
            id="an invalid authority",
        ),
    ],
)
async def test_an_invalid_kubeconfig_is_a_one_line_error_with_the_file(
    tmp_path: Path, content: str | None, want: str
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as failed:
        await load(str(path))
    assert str(path) in str(failed.value)
    assert want in str(failed.value)
    assert "\n" not in str(failed.value)


async def test_outside_a_pod_the_error_names_the_flag() -> None:
    with pytest.raises(ConfigError, match="--kubeconfig"):
        await load("", {})


IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    (tmp_path / "ca.crt").write_text(CERTIFICATE)
    connection = in_pod(IN_POD, tmp_path)
    assert connection.base_url == "https://[fd00::1]:443"
    assert connection.ssl_context is not None
    assert connection.ssl_context.verify_mode is ssl.CERT_REQUIRED
    old = await connection.headers()
    assert old == {"Authorization": "Bearer old"}
    assert "old" not in repr(connection)

    token.write_text("new\n")
    assert await connection.headers() == old  # good for a minute
    assert await connection.renew(old)
    assert await connection.headers() == {"Authorization": "Bearer new"}
    for unusable in ("", "\n", "tökén"):
        token.write_text(unusable)
        assert not await connection.renew(await connection.headers())
    token.unlink()
    assert not await connection.renew(await connection.headers())
    assert await connection.headers() == {"Authorization": "Bearer new"}  # the last usable one


def test_a_token_is_read_again_after_a_minute(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    (tmp_path / "ca.crt").write_text(CERTIFICATE)

    async def main(_clock: VirtualClock) -> None:
        connection = in_pod(IN_POD, tmp_path)
        seen = []
        for _ in range(4):
            seen.append((await connection.headers())["Authorization"])
            token.write_text("new")
            await asyncio.sleep(25)
        assert seen == ["Bearer old", "Bearer old", "Bearer old", "Bearer new"]

    virtual_time.run(main)


@pytest.mark.parametrize(
    ("environ", "files", "want"),
    [
        pytest.param({}, {}, "KUBERNETES_SERVICE_HOST", id="no pod"),
        pytest.param(IN_POD | {"KUBERNETES_SERVICE_PORT": ""}, {}, "is not set", id="no port"),
        pytest.param(IN_POD, {"ca.crt": CERTIFICATE}, "token", id="no token"),
        pytest.param(IN_POD, {"ca.crt": CERTIFICATE, "token": ""}, "token is empty", id="empty"),
        pytest.param(IN_POD, {"token": "t"}, "No such file", id="no authority"),
        pytest.param(IN_POD, {"ca.crt": "", "token": "t"}, "ca.crt", id="an empty authority"),
        pytest.param(IN_POD, {"ca.crt": "none", "token": "t"}, "ca.crt", id="no certificate"),
    ],
)
def test_a_pod_without_a_usable_service_account_is_a_one_line_error(
    environ: dict[str, str], files: dict[str, str], want: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=r"^in-cluster configuration: [^\n]*$") as failed:
        in_pod(environ, tmp_path)
    assert want in str(failed.value)
