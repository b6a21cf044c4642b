"""The components beside the API server: static pods, systemd units and their flags."""

import re
import shlex
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.registration import OWN_PODS, of_settings
from admission.settings import AdmissionSettings
from common.flags import read_flags
from common.version import version
from page_commands import ROOT, find_block
from recommender.settings import RecommenderSettings
from static_pods import CONTROL_PLANE, PAGE, STATIC_PODS, static_pod
from updater.settings import UpdaterSettings

Settings = RecommenderSettings | UpdaterSettings | AdmissionSettings

ADMISSION = "vpa-admission-controller"
SETTINGS: dict[str, type[Settings]] = {
    "vpa-recommender": RecommenderSettings,
    "vpa-updater": UpdaterSettings,
    ADMISSION: AdmissionSettings,
}
DEPLOY = ROOT / "deploy"
SYSTEMD = CONTROL_PLANE / "systemd"
UNIT = SYSTEMD / "vpa@.service"
ANALYZE = shutil.which("systemd-analyze") or ""

each_component = pytest.mark.parametrize("name", SETTINGS)


def short(name: str) -> str:
    """Return the name of a component as the unit has it."""
    return name.removeprefix("vpa-")


def read(name: str, args: list[str]) -> Settings:
    return read_flags(SETTINGS[name], args, program=name, environ={})


def deployed(name: str) -> dict[str, Any]:
    """Return the container of the Deployment of a component."""
    path = DEPLOY / "components" / f"{short(name).removesuffix('-controller')}.yaml"
    (found,) = (
        item for item in yaml.safe_load_all(path.read_text("utf-8")) if item["kind"] == "Deployment"
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return dict(container)


def environment_flags(name: str) -> list[str]:
    """Return the flags in the environment file of a component, as systemd splits them."""
    text = (SYSTEMD / f"{short(name)}.env").read_text("utf-8").replace("\\\n", "")
    (value,) = re.findall(r'^FLAGS="([^"]*)"$', text, re.MULTILINE)
    return str(value).split()


# Static pods


def test_there_is_one_static_pod_for_each_component() -> None:
    assert {path.stem for path in STATIC_PODS.iterdir()} == set(SETTINGS)


@each_component
def test_a_static_pod_names_no_object_of_the_cluster(name: str) -> None:
    """The kubelet refuses static pods that do."""
    pod = static_pod(name)
    assert (pod.manifest["kind"], pod.name) == ("Pod", name)
    assert pod.manifest["metadata"]["namespace"] == "kube-system"
    spec = pod.manifest["spec"]
    assert spec.keys().isdisjoint({"serviceAccountName", "imagePullSecrets", "nodeName"})
    assert "envFrom" not in pod.container
    assert "env" not in pod.container
    assert {kind for volume in spec["volumes"] for kind in volume} <= {
        "name",
        "hostPath",
        "emptyDir",
    }


@each_component
def test_a_static_pod_is_critical_and_on_the_network_of_its_node(name: str) -> None:
    spec = static_pod(name).manifest["spec"]
    assert spec["hostNetwork"] is True
    assert (spec["priorityClassName"], spec["priority"]) == ("system-node-critical", 2_000_001_000)


@each_component
def test_a_static_pod_is_restricted_except_for_the_host(name: str) -> None:
    """All that Pod Security's level restricted demands but hostNetwork and one file of the host."""
    pod = static_pod(name)
    spec, container = pod.manifest["spec"], pod.container
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == deployed(name)["securityContext"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    (kubeconfig,) = (volume for volume in spec["volumes"] if "hostPath" in volume)
    assert kubeconfig["hostPath"] == {"path": f"/etc/kubernetes/{name}.conf", "type": "File"}
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == kubeconfig["name"])
    assert mount["readOnly"] is True
    assert pod.args[0] == f"--kubeconfig={mount['mountPath']}"


@each_component
def test_a_static_pod_has_the_resources_image_and_labels_of_the_deployment(name: str) -> None:
    pod, other = static_pod(name), deployed(name)
    assert pod.container["resources"] == other["resources"]
    assert pod.container["image"] == f"registry.example.com/vpa/{other['image']}:{version()}"
    labels = pod.manifest["metadata"]["labels"]
    assert labels["app"] in OWN_PODS, "the webhook exempts it"
    assert labels["app.kubernetes.io/component"] == short(name)


@each_component
def test_a_static_pod_has_the_flags_of_the_deployment_and_three_paths_and_addresses(
    name: str,
) -> None:
    deployment = [arg.replace("$(NAMESPACE)", "kube-system") for arg in deployed(name)["args"]]
    own, other = read(name, static_pod(name).args), read(name, deployment)
    other = replace(other, kubeconfig=own.kubeconfig, address=own.address)
    if isinstance(own, AdmissionSettings) and isinstance(other, AdmissionSettings):
        other = replace(
            other,
            register_by_url=True,
            webhook_address=own.webhook_address,
            webhook_port=own.webhook_port,
        )
    assert own == other


def test_the_webhook_is_registered_on_loopback_by_the_port_that_it_serves() -> None:
    pod = static_pod(ADMISSION)
    settings = read(ADMISSION, pod.args)
    assert isinstance(settings, AdmissionSettings)
    assert settings.manage_certificates
    registration = of_settings(settings, namespace="kube-system")
    assert registration.url == f"https://127.0.0.1:{settings.port}"
    assert registration.host == "127.0.0.1", "for which admission creates the certificate"
    assert pod.ports["webhook"] == settings.port


@each_component
def test_probes_call_the_ops_address(name: str) -> None:
    pod = static_pod(name)
    host, _, port = read(name, pod.args).address.rpartition(":")
    assert pod.ports["prometheus"] == int(port)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        called = pod.container[probe]["httpGet"]
        assert (called["host"], called["port"]) == (host, "prometheus")
        same = deployed(name)[probe]
        assert pod.container[probe] | {"httpGet": {}} == same | {"httpGet": {}}
        assert called["path"] == same["httpGet"]["path"]


def test_no_two_components_have_the_same_port() -> None:
    ports = [port for name in SETTINGS for port in static_pod(name).ports.values()]
    assert len(ports) == len(set(ports)) == len(SETTINGS) + 1


# systemd


@each_component
def test_a_unit_has_the_flags_of_the_static_pod(name: str) -> None:
    own, other = read(name, environment_flags(name)), read(name, static_pod(name).args)
    if isinstance(own, AdmissionSettings) and isinstance(other, AdmissionSettings):
        folder = Path("/run", name)
        for file in (own.tls_cert_file, own.tls_private_key, own.client_ca_file):
            assert Path(file).parent == folder, "the RuntimeDirectory of the unit"
        own = replace(
            own,
            tls_cert_file=other.tls_cert_file,
            tls_private_key=other.tls_private_key,
            client_ca_file=other.client_ca_file,
        )
    assert replace(own, kubeconfig=other.kubeconfig) == other


def test_a_unit_starts_a_program_of_the_package() -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)
    program, *words = shlex.split(command)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for name in SETTINGS:
        assert Path(program.replace("%i", short(name))).name in scripts
    assert words == ["--kubeconfig=${CREDENTIALS_DIRECTORY}/kubeconfig", "$FLAGS"]


@pytest.fixture(params=SETTINGS)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Write the unit of a component, with a program that exists."""
    name = str(request.param)
    program = tmp_path / "bin" / name
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = tmp_path / f"vpa@{short(name)}.service"
    path.write_text(UNIT.read_text("utf-8").replace("/opt/vpa", str(tmp_path)))
    return path


@pytest.mark.systemd
@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not on the PATH")
def test_systemd_accepts_the_unit(unit: Path) -> None:
    found = subprocess.run(
        [ANALYZE, "verify", str(unit)], check=False, capture_output=True, text=True
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@pytest.mark.systemd
@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not on the PATH")
def test_systemd_rates_the_exposure_of_the_unit_as_low(unit: Path) -> None:
    found = subprocess.run(
        [ANALYZE, "security", "--offline=true", "--threshold=15", "--no-pager", str(unit)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout


# The page


def test_commands_of_the_page_name_files_and_units_that_exist() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    for path in re.findall(r"deploy/[\w./@-]+", text):
        assert (ROOT / path).exists(), path
    commands = find_block(PAGE, "for name in recommender updater")
    assert "deploy/control-plane/systemd/$name.env" in commands
    instances = re.search(r"enable --now (.*)$", commands, re.MULTILINE)
    assert instances is not None
    assert instances[1].split() == [f"vpa@{short(name)}" for name in SETTINGS]
    assert f"pyvpa-{version()}-py3-none-any.whl" in text
