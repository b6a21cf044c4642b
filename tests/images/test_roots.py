"""The Dockerfile, executed without a container engine: each component runs in its own root.

The roots are mounted read-only, and the processes have the user of the image. The Python of the
tests stands in for the base image.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name

from certs.certificate_stores import CA_CERTIFICATE
from certs.settings import DEFAULT_SECRET
from common.kube.config import SERVICE_ACCOUNT
from common.kube.endpoints import SECRETS
from component import LOOPBACK, Process
from deploy.images import TARGETS, build_arguments, version
from image_packages import PACKAGES, installed, modules, required
from image_roots.system import in_namespace
from process_harness import AGENTS, World, world
from workloads import deploy

MEGABYTES = {"recommender": 200, "updater": 120, "admission": 120, "certs": 120}  # the limits
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
SETTLED = {"cpu": "35m", "memory": "250Mi"}  # the recommendation for the workload `small`

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="needs Linux and root, for chroot"
)


@pytest.fixture(scope="session")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Build the root of each target; return their folder, and delete it at the end."""
    folder = tmp_path_factory.mktemp("roots")
    arguments = [f"--build-arg={name}={value}" for name, value in build_arguments("https://s")]
    command = in_namespace("image_roots", str(folder), *TARGETS, *arguments)
    subprocess.run(command, env=ENVIRON, check=True)
    yield folder
    shutil.rmtree(folder)


def in_root(root: Path, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
    """Return the command that runs the entry point of a root."""
    return in_namespace("image_roots.run", *flags, str(root), "--", *arguments)


def output(root: Path, *arguments: str, flags: Sequence[str] = ()) -> str:
    """Return what the entry point of a root prints."""
    command = in_root(root, *arguments, flags=flags)
    done = subprocess.run(command, env=ENVIRON, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(root: Path, code: str) -> str:
    """Return what a Python program prints in a root."""
    return output(root, "-c", code, flags=["--entrypoint=/venv/bin/python -P"])


# What is in a root


@pytest.mark.parametrize("target", TARGETS)
def test_the_entry_point_reports_its_version(roots: Path, target: str) -> None:
    assert output(roots / target, "--version").split() == [TARGETS[target], version()]


@pytest.mark.parametrize("target", TARGETS)
def test_a_root_has_exactly_the_packages_of_its_component(roots: Path, target: str) -> None:
    (packages,) = (roots / target / "venv/lib").glob("python3.*/site-packages")
    code = "import importlib.metadata as m; print(*(each.name for each in m.distributions()))"
    named = set(installed(target))
    names = {canonicalize_name(each) for each in python(roots / target, code).split()}
    assert names == {*named, *required(named), "pyvpa"}
    folders = (folder for folder in packages.iterdir() if folder.name not in PACKAGES)
    size = sum(file.lstat().st_size for each in folders for file in (each, *each.rglob("*")))
    print(f"\n{target}: dependencies of {size / 1e6:.0f} MB with bytecode")  # noqa: T201 - a measurement
    assert size <= MEGABYTES[target] * 1e6


@pytest.mark.parametrize("target", TARGETS)
def test_every_module_of_a_component_can_be_imported(roots: Path, target: str) -> None:
    imports = "\n".join(f"import {name}" for name in sorted(modules(target)))
    python(roots / target, imports)


@pytest.mark.parametrize("target", TARGETS)
def test_a_root_has_no_installers_and_one_program(roots: Path, target: str) -> None:
    folders = (roots / target / "usr/local", roots / target / "venv")
    names = {file.name.partition("-")[0] for folder in folders for file in folder.rglob("*")}
    assert names & {"pip", "pip3", "setuptools", "wheel", "ensurepip"} == set()
    programs = {file.name for file in (roots / target / "venv/bin").iterdir()}
    assert {name for name in programs if not name.startswith("python")} == {TARGETS[target]}


@pytest.mark.parametrize("target", TARGETS)
def test_all_modules_have_bytecode(roots: Path, target: str) -> None:
    never = ("idlelib", "lib2to3", "tkinter", "turtledemo")  # those that no component imports
    missing = [
        str(source)
        for folder in ("usr/local/lib", "venv/lib")
        for source in (roots / target / folder).rglob("*.py")
        if not any((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"))
        if not any(name in source.parts for name in never)
    ]
    assert missing == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_configuration_of_an_image(roots: Path, target: str) -> None:
    config = json.loads((roots / f"{target}.json").read_text("utf-8"))
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items()}
    arguments = {name.lower(): value for name, value in build_arguments("https://s")}
    assert labels.pop("description")
    assert labels == {"title": TARGETS[target], "licenses": "Apache-2.0", **arguments}
    assert config["User"] == "65532:65532"
    assert "PYTHONDONTWRITEBYTECODE=1" in config["Env"]


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_can_be_written(roots: Path, target: str) -> None:
    code = "import errno; from pathlib import Path\n"
    code += "try: Path('/tmp/x').touch()\n"
    code += "except OSError as error: print(errno.errorcode[error.errno])"
    assert python(roots / target, code) == "EROFS\n"


# Components


async def start(it: World, roots: Path, target: str) -> Process:
    """Start a component in its root, with a service account and certificates as in a pod."""
    arguments, ops = it.command(target)
    kept = [each.replace(str(it.folder), "/tmp") for each in arguments if "kubeconfig" not in each]
    account = it.folder / "account" / target
    account.mkdir(parents=True)
    kubeconfig = yaml.safe_load((it.folder / f"{target}.kubeconfig").read_text("utf-8"))
    authority = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
    (account / "ca.crt").write_bytes(b64decode(authority))
    (account / "token").write_text(kubeconfig["users"][0]["user"]["token"], "utf-8")
    flags = [
        f"--mount={account}:{SERVICE_ACCOUNT}",
        f"--mount={it.folder}:/tmp",
        f"--env=KUBERNETES_SERVICE_HOST={LOOPBACK}",
        f"--env=KUBERNETES_SERVICE_PORT={it.gates[target].port}",
    ]
    process = await asyncio.create_subprocess_exec(
        *in_root(roots / target, *kept[1:], flags=flags), env=ENVIRON, stderr=subprocess.PIPE
    )
    found = Process(target, process, ops)
    it.running.append(found)
    it.group.create_task(found.read_log())
    return found


def status_fields(process: Process) -> dict[str, str]:
    """Return what the kernel reports about a process."""
    status = Path(f"/proc/{process.process.pid}/status").read_text("utf-8")
    return dict(line.split(":\t", 1) for line in status.splitlines())


def make_readable(folder: Path) -> None:
    """Let the user of the image read the certificates of a test."""
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


async def test_the_components_work_in_their_roots(roots: Path, tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        make_readable(tmp_path)
        clock = asyncio.get_running_loop().time
        for target in AGENTS:
            began = clock()
            process = await start(it, roots, target)
            await it.ready(process)
            print(f"\n{target}: ready after {clock() - began:.2f} s, mounts included")  # noqa: T201 - a measurement
            fields = status_fields(process)
            assert fields["Uid"].split() == fields["Gid"].split() == ["65532"] * 4
            assert fields["Groups"].strip() == ""
        await deploy(it.client, "small", replicas=2)
        await it.until(lambda: it.target("small") == SETTLED and it.fits("small", 2))
        assert len(it.evicted("small")) == 2
        for process in it.running:
            assert (await process.stop())[0] == 0
            assert process.said("Traceback") == []


async def test_certs_works_in_its_root_with_a_kubeconfig(roots: Path, tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        kubeconfig = yaml.safe_load(it.cluster.kubeconfig)
        cluster = kubeconfig["clusters"][0]["cluster"]
        (tmp_path / "ca.crt").write_bytes(b64decode(cluster.pop("certificate-authority-data")))
        cluster["certificate-authority"] = "ca.crt"
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), "utf-8")
        make_readable(tmp_path)
        command = in_root(
            roots / "certs", "--kubeconfig=/tmp/kubeconfig", flags=[f"--mount={tmp_path}:/tmp"]
        )
        process = await asyncio.create_subprocess_exec(*command, env=ENVIRON)
        assert await process.wait() == 0
        secret = await it.client.get(SECRETS, DEFAULT_SECRET, namespace="kube-system")
        assert CA_CERTIFICATE in secret["data"]
