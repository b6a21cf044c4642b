"""The command lines of the servers, and their files."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from controlplane import commands
from controlplane.binaries import Binaries
from controlplane.commands import Ports
from controlplane.files import WEBHOOK_CLIENT, Files, write_files
from page_commands import manifests

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
PORTS = Ports(
    etcd=20001, etcd_peers=20002, api_server=20003, controller_manager=20004, scheduler=20005
)
BINARIES = Binaries(Path("/programs"))
BUILDERS = {
    "etcd": commands.etcd,
    "kube-apiserver": commands.api_server,
    "kube-controller-manager": commands.controller_manager,
    "kube-scheduler": commands.scheduler,
}


@pytest.mark.parametrize("name", BUILDERS)
def test_every_file_that_a_server_reads_is_written(name: str, tmp_path: Path) -> None:
    files = Files.within(tmp_path)
    write_files(files, url=PORTS.url, now=NOW)
    command = BUILDERS[name](BINARIES, files, PORTS)
    assert command[0] == f"/programs/{name}"
    named = [Path(flag.partition("=")[2]) for flag in command if f"={tmp_path}" in flag]
    made_by_servers = {files.data, files.audit_log}
    assert [path for path in named if path not in made_by_servers and not path.is_file()] == []


@pytest.mark.parametrize("name", BUILDERS)
def test_every_server_listens_on_loopback_only(name: str) -> None:
    command = BUILDERS[name](BINARIES, Files(Path("/x")), PORTS)
    listens = [
        flag for flag in command if flag.startswith(("--bind-address=", "--listen-", "--initial-"))
    ]
    assert listens
    assert all("127.0.0.1" in flag for flag in listens)


@pytest.mark.parametrize("name", ["kube-controller-manager", "kube-scheduler"])
def test_the_controller_manager_has_no_rate_limit_and_no_leader_election(name: str) -> None:
    command = BUILDERS[name](BINARIES, Files(Path("/x")), PORTS)
    assert {"--leader-elect=false", "--kube-api-qps=2000"} <= set(command)


def test_the_api_server_obeys_rbac_and_keeps_default_plugins() -> None:
    command = commands.api_server(BINARIES, Files(Path("/x")), PORTS)
    assert "--authorization-mode=Node,RBAC" in command
    assert "--enable-aggregator-routing=false" in command
    assert [flag for flag in command if "admission-plugins" in flag] == []


def test_the_api_server_can_dial_endpoints() -> None:
    command = commands.api_server(BINARIES, Files(Path("/x")), PORTS, dial_endpoints=True)
    assert "--enable-aggregator-routing=true" in command


def test_the_administrator_is_in_group_masters_by_certificate(tmp_path: Path) -> None:
    files = Files.within(tmp_path)
    written = write_files(files, url=PORTS.url, now=NOW)
    config = yaml.safe_load(written.kubeconfig)
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:20003"
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    certificate = x509.load_pem_x509_certificate(files.certificate("admin").read_bytes())
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [group.value for group in groups] == ["system:masters"]


def test_private_keys_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    files = Files.within(tmp_path)
    write_files(files, url=PORTS.url, now=NOW)
    keys = [*(tmp_path / "pki").glob("*.key"), *tmp_path.glob("*.kubeconfig")]
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_the_front_proxy_has_its_own_authority(tmp_path: Path) -> None:
    files = Files.within(tmp_path)
    write_files(files, url=PORTS.url, now=NOW)
    own, cluster = (
        x509.load_pem_x509_certificate(files.certificate(name).read_bytes())
        for name in ("front-proxy-ca", "ca")
    )
    front = x509.load_pem_x509_certificate(files.certificate("front-proxy").read_bytes())
    front.verify_directly_issued_by(own)
    with pytest.raises(ValueError, match=r"(?i)issuer"):
        front.verify_directly_issued_by(cluster)


def test_the_api_server_sends_webhooks_a_client_certificate_as_documented(tmp_path: Path) -> None:
    """The API server's files equal the text of docs/security.md, except for the paths."""
    files = Files.within(tmp_path)
    write_files(files, url=PORTS.url, now=NOW, webhooks=["vpa-webhook.kube-system.svc"])
    kubeconfig, pair = files.kubeconfig(WEBHOOK_CLIENT), "/etc/kubernetes/pki/webhook-client"
    paths = {
        "/etc/kubernetes/webhooks.kubeconfig": kubeconfig,
        f"{pair}.crt": files.certificate(WEBHOOK_CLIENT),
        f"{pair}.key": files.key(WEBHOOK_CLIENT),
    }
    shown = manifests("docs/security.md")
    for name, file in (
        ("admission-control.yaml", files.admission_configuration),
        ("webhooks.kubeconfig", kubeconfig),
    ):
        text = shown[name]
        for documented, written in paths.items():
            text = text.replace(documented, str(written))
        assert yaml.safe_load(text) == yaml.safe_load(file.read_text("utf-8"))
