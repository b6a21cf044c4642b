"""The configuration of the client: kubeconfigs and service accounts, valid and invalid."""

import asyncio
import base64
import datetime as dt
import json
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from common.errors import ConfigError
from common.kube import kubeconfig
from common.kube.client import KubeClient
from common.kube.config import contexts, in_pod, kubeconfig_files, load, runs_in_pod
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


@pytest.mark.parametrize(
    "shared_memory",
    [
        pytest.param(True, id="in shared memory"),
        pytest.param(False, id="in the folder of temporary files"),
    ],
)
async def test_no_private_key_is_left_behind(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shared_memory: bool
) -> None:
    elsewhere, nowhere = tmp_path / "tmp", str(tmp_path / "nowhere")
    elsewhere.mkdir()
    memory, temporary = str(elsewhere), nowhere
    if not shared_memory:
        memory, temporary = temporary, memory
    monkeypatch.setattr(kubeconfig, "_SHARED_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", temporary)
    user = {"client-certificate-data": DATA, "client-key-data": KEY_DATA}
    before = elsewhere.stat().st_mtime_ns
    await load(write(user, **{"certificate-authority-data": DATA}))
    await load(write(user, **{"certificate-authority-data": DATA}))
    assert list(elsewhere.iterdir()) == []
    assert elsewhere.stat().st_mtime_ns > before  # files were there


async def test_inline_data_without_a_writable_folder_is_a_clear_error(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write({"token": "abc"}, **{"certificate-authority-data": DATA})
    monkeypatch.setattr(kubeconfig, "_SHARED_MEMORY", "/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    with pytest.raises(ConfigError, match=rf"^kubeconfig {file}: inline .*/tmp.* TMPDIR$"):
        await load(file)


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


@pytest.mark.parametrize(("written", "want"), [("", ""), (", namespace: shop", "shop")])
async def test_the_namespace_is_that_of_the_context(
    tmp_path: Path, written: str, want: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "clusters: [{name: c, cluster: {server: 'https://h'}}]\n"
        f"contexts: [{{name: x, context: {{cluster: c{written}}}}}]\ncurrent-context: x\n"
    )
    connection = await load(str(path))
    assert connection.namespace == want


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
        pytest.param("", "no current-context", id="empty"),
        pytest.param("{", "not YAML", id="not YAML"),
        pytest.param("just text", "not a mapping", id="text"),
        pytest.param("kind: Config\n", "no current-context", id="no content"),
        pytest.param("clusters: {}\n", "no current-context", id="an empty mapping"),
        pytest.param("clusters: 7\n", "clusters is not a list", id="no list"),
        pytest.param("clusters: [c]\ncurrent-context: x\n", "", id="a cluster that is a text"),
        pytest.param("clusters: [{}]\ncurrent-context: x\n", "name", id="a nameless cluster"),
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


# Several kubeconfigs


def one_context(folder: Path, name: str, *, current: bool = True, **user: str) -> str:
    """Write a kubeconfig with one cluster, context and user of this name; return its path."""
    folder.mkdir(exist_ok=True)
    content: dict[str, Any] = {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": user or {"token": name}}],
    }
    if current:
        content["current-context"] = name
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return str(path)


async def merged(*paths: str, context: str = "") -> tuple[str, str]:
    """Return the server and the token that KUBECONFIG with these files describes."""
    connection = await load("", context, environ={"KUBECONFIG": ":".join(paths)})
    return connection.base_url, (await connection.headers())["Authorization"]


async def test_the_first_current_context_of_several_files_wins(tmp_path: Path) -> None:
    first = one_context(tmp_path / "1", "first", current=False)
    second = one_context(tmp_path / "2", "second")
    third = one_context(tmp_path / "3", "third")
    assert await merged(first, second, third) == ("https://second", "Bearer second")
    assert await merged(third, first, second) == ("https://third", "Bearer third")


@pytest.mark.parametrize("name", ["first", "second"])
async def test_a_context_is_found_in_any_file(tmp_path: Path, name: str) -> None:
    files = (one_context(tmp_path / each, each) for each in ("first", "second"))
    assert await merged(*files, context=name) == (f"https://{name}", f"Bearer {name}")


async def test_a_context_of_the_flags_file(tmp_path: Path) -> None:
    file = one_context(tmp_path, "it", current=False)
    connection = await load(file, "it")
    assert connection.base_url == "https://it"
    with pytest.raises(ConfigError, match="name other"):
        await load(file, "other")


async def test_a_name_belongs_to_the_first_file_that_has_it(tmp_path: Path) -> None:
    first = one_context(tmp_path / "1", "it", token="one")
    second = one_context(tmp_path / "2", "it", token="two")
    assert await merged(first, second) == ("https://it", "Bearer one")


async def test_entries_of_several_files_belong_together(tmp_path: Path) -> None:
    users, rest = tmp_path / "users", tmp_path / "rest"
    users.write_text("users: [{name: u, user: {token: t}}]\n")
    rest.write_text(
        "clusters: [{name: c, cluster: {server: 'https://h'}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    for files in ((users, rest), (rest, users)):
        assert await merged(*map(str, files)) == ("https://h", "Bearer t")


async def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    first = one_context(tmp_path / "1", "first", current=False)
    second = one_context(tmp_path / "2", "second", tokenFile="token")
    (tmp_path / "2" / "token").write_text("from-file")
    assert await merged(first, second) == ("https://second", "Bearer from-file")


async def test_a_plugin_with_a_path_is_relative_to_its_file(write: Write, tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    answer = {
        "apiVersion": version,
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    plugin.chmod(0o755)
    file = write({"exec": {"apiVersion": version, "command": "./plugin"}})
    assert (await merged(file))[1] == "Bearer from-plugin"


async def test_missing_files_and_empty_names_are_skipped(tmp_path: Path) -> None:
    there, empty = one_context(tmp_path, "it"), tmp_path / "empty"
    empty.touch()
    assert (await merged("/nowhere/config", "", str(empty), there))[0] == "https://it"
    with pytest.raises(ConfigError, match=r"^kubeconfig /nowhere/a:/nowhere/b: no such file$"):
        await merged("/nowhere/a", "/nowhere/b")


async def test_a_broken_file_among_several_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("{")
    with pytest.raises(ConfigError, match="not YAML"):
        await merged(one_context(tmp_path, "it"), str(broken))


async def test_all_contexts_and_the_current_one(tmp_path: Path) -> None:
    first = one_context(tmp_path / "1", "first", current=False)
    second = one_context(tmp_path / "2", "second")
    environ = {"KUBECONFIG": f"{first}:{second}"}
    assert await contexts("", environ=environ) == (("first", "second"), "second")
    assert await contexts(first, environ=environ) == (("first",), "")


async def test_contexts_of_an_invalid_kubeconfig_are_a_one_line_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("{")
    for file, want in ((broken, "not YAML"), (tmp_path / "none", "no such file")):
        with pytest.raises(ConfigError, match=rf"^kubeconfig {file}: {want}[^\n]*$"):
            await contexts(str(file))


async def test_credentials_are_renewed_from_the_same_context(tmp_path: Path) -> None:
    first = one_context(tmp_path / "1", "first")
    second = one_context(tmp_path / "2", "second")
    connection = await load("", environ={"KUBECONFIG": f"{first}:{second}"})
    headers = await connection.headers()
    one_context(tmp_path / "1", "first", current=False, token="renewed")
    assert await connection.renew(headers)
    assert await connection.headers() == {"Authorization": "Bearer renewed"}


# The choice between a kubeconfig and the service account


@dataclass(frozen=True, kw_only=True)
class Choice:
    id: str
    want: tuple[str, ...]  # none: the service account
    kubeconfig: str = ""
    context: str = ""
    variable: str = ""
    pod: bool = False
    default: str = ""


CHOICES = [
    Choice(id="nothing", want=()),
    Choice(id="a pod", pod=True, want=()),
    Choice(id="the flag", kubeconfig="flag", want=("flag",)),
    Choice(id="the flag in a pod", kubeconfig="flag", pod=True, want=("flag",)),
    Choice(id="the flag and the variable", kubeconfig="flag", variable="a", want=("flag",)),
    Choice(id="a flag with a colon", kubeconfig="a:b", want=("a:b",)),
    Choice(id="the variable", variable="a:b", want=("a", "b")),
    Choice(id="a file twice", variable="a:b:a", want=("a", "b")),
    Choice(id="empty names", variable=":a::", want=("a",)),
    Choice(id="the variable in a pod", variable="a", pod=True, want=()),
    Choice(
        id="the variable and a context in a pod", variable="a", context="x", pod=True, want=("a",)
    ),
    Choice(id="the default", default="d", want=("d",)),
    Choice(id="the default and the variable", default="d", variable="a", want=("a",)),
    Choice(id="the default in a pod", default="d", pod=True, want=()),
    Choice(
        id="the default and a context in a pod", default="d", context="x", pod=True, want=("d",)
    ),
]


@pytest.mark.parametrize("case", CHOICES, ids=lambda case: case.id)
def test_which_kubeconfigs_are_read(case: Choice) -> None:
    environ = {"KUBECONFIG": case.variable} if case.variable else {}
    files = kubeconfig_files(
        case.kubeconfig, case.context, environ=environ, pod=case.pod, default=case.default
    )
    assert files == case.want


async def test_outside_a_pod_the_error_names_the_flag_and_the_variable() -> None:
    with pytest.raises(ConfigError, match="--kubeconfig or KUBECONFIG"):
        await load("", environ={})


async def test_a_context_without_a_file_is_an_error() -> None:
    with pytest.raises(ConfigError, match="--context needs a file"):
        await load("", "x", environ={})


IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(
    ("environ", "token", "want"),
    [
        pytest.param(IN_POD, "t", True, id="address and token"),
        pytest.param(IN_POD, None, False, id="no token"),
        pytest.param({}, "t", False, id="no address"),
        pytest.param(IN_POD | {"KUBERNETES_SERVICE_PORT": ""}, "t", False, id="no port"),
    ],
)
def test_what_is_a_pod(
    environ: dict[str, str], token: str | None, tmp_path: Path, *, want: bool
) -> None:
    if token is not None:
        (tmp_path / "token").write_text(token)
    assert runs_in_pod(environ, tmp_path) is want


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
