"""Processes of containers that really run: command, environment, volumes, probes, restarts."""

import contextlib
import os
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from controlplane.containers import observations
from controlplane.containers.command import argv
from controlplane.containers.folders import File, inside, write_volume
from controlplane.containers.observations import ProbeKind
from controlplane.containers.probes import Verdict, port_number
from controlplane.containers.site import Place
from controlplane.containers.variables import environment, field_of
from hostile_texts import NEIGHBOURS
from sandbox.kubelet.pod_lifecycle import Phase, PodRun, Simulation
from sandbox.kubelet.timing import Timing
from sandbox.kubelet.wire import (
    ContainerPort,
    ContainerSpec,
    EnvSource,
    EnvVar,
    FieldRef,
    Probe,
    RunnableMeta,
    RunnablePod,
    RunnablePodSpec,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = Place(
    kubeconfig=Path("/p/kubeconfig"), root=Path("/p/root"), ip="127.64.0.10", host_ip="127.0.0.1"
)
CONTAINER = ContainerSpec(
    name="app",
    image="registry.example:5000/team/web:2@sha256:0",
    args=("--on=$(IP):80", "$$(IP)"),
    env=(
        EnvVar(name="IP", value_from=EnvSource(field_ref=FieldRef(field_path="status.podIP"))),
        EnvVar(name="URL", value="http://$(IP)"),
    ),
    ports=(ContainerPort(name="http", container_port=80),),
    readiness_probe=Probe(),
)


def pod(*, restart_policy: str = "Always", deleting: bool = False) -> RunnablePod:
    return RunnablePod(
        metadata=RunnableMeta(
            name="web",
            namespace="shop",
            uid="1",
            labels={"app": "web"},
            deletion_timestamp=NOW if deleting else None,
        ),
        spec=RunnablePodSpec(containers=(CONTAINER,), restart_policy=restart_policy),
    )


def test_the_name_of_an_image_excludes_tag_and_digest() -> None:
    assert CONTAINER.image_name == "registry.example:5000/team/web"


def test_the_command_is_from_the_image_and_the_arguments_from_the_pod() -> None:
    env = environment(pod(), CONTAINER, PLACE, {})
    assert env == {"IP": "127.64.0.10", "URL": "http://127.64.0.10"}
    words = ["{python}", "--kubeconfig={kubeconfig}", "{root}/x", "{namespace}/{name}@{ip}"]
    assert argv(words, pod(), CONTAINER, PLACE, env) == [
        sys.executable,
        "--kubeconfig=/p/kubeconfig",
        "/p/root/x",
        "shop/web@127.64.0.10",
        "--on=127.64.0.10:80",
        "$(IP)",
    ]


def test_fields_of_pods_and_the_error_of_an_unknown_field() -> None:
    assert field_of(pod(), "metadata.labels['app']", PLACE) == "web"
    with pytest.raises(ValueError, match=r"spec\.moon"):
        field_of(pod(), "spec.moon", PLACE)


def test_a_volume_is_replaced_atomically_without_leftovers(tmp_path: Path) -> None:
    assert write_volume(tmp_path, {"a": File(b"1"), "deep/b": File(b"2", 0o600)})
    assert not write_volume(tmp_path, {"a": File(b"1"), "deep/b": File(b"2", 0o600)})
    before = (tmp_path / "..data").resolve()
    assert (tmp_path / "deep/b").read_bytes() == b"2"
    assert (tmp_path / "deep/b").stat().st_mode & 0o777 == 0o600
    assert write_volume(tmp_path, {"a": File(b"3")})
    assert (tmp_path / "a").read_bytes() == b"3"
    assert not before.exists()
    assert {one.name for one in tmp_path.iterdir() if not one.name.startswith("..")} == {"a"}


def test_no_file_leads_out_of_its_volume(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a path inside"):
        write_volume(tmp_path, {"x/../../y": File(b"")})


@pytest.mark.parametrize("text", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
def test_no_name_of_a_file_or_mount_leads_out_of_its_folder(text: str, tmp_path: Path) -> None:
    volume, root = tmp_path / "volume", tmp_path / "root"
    with contextlib.suppress(OSError, ValueError):
        write_volume(volume, {text: File(b"1")})
    assert {one.name for one in tmp_path.iterdir()} <= {"volume"}
    assert all(one.resolve().is_relative_to(volume) for one in tmp_path.rglob("*"))
    assert Path(os.path.normpath(inside(root, text))).is_relative_to(root)


def test_a_mount_is_at_its_path(tmp_path: Path) -> None:
    assert inside(tmp_path, "/etc/app/") == tmp_path / "etc/app"
    assert inside(tmp_path, "../../etc") == tmp_path / "etc"
    assert inside(tmp_path, "/") == tmp_path


def test_a_probe_result_changes_at_its_threshold() -> None:
    verdict = Verdict(Probe(failure_threshold=2, success_threshold=1), holds=True)
    results = (False, True, False, False, False, True)
    assert [verdict.add(success=one) for one in results] == [
        False,
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_probe_may_name_a_port() -> None:
    assert port_number("http", CONTAINER) == 80
    assert port_number(8080, CONTAINER) == 8080
    with pytest.raises(ValueError, match="no port"):
        port_number("smtp", CONTAINER)


def running(*, restart_policy: str = "Always") -> PodRun:
    simulation = Simulation(minor=36, timing=Timing(), images={CONTAINER.image_name: ["true"]})
    run = PodRun(object=pod(restart_policy=restart_policy), simulation=simulation)
    run.observe(run.object)
    run.admit(NOW, None, ip="127.64.0.10")
    run.advance(NOW + timedelta(seconds=5))
    assert [one.running for one in run.mains] == [False]
    assert run.due(NOW) is None, "only the volumes can bring it on"
    observations.prepared(run, NOW)
    run.advance(NOW + timedelta(seconds=5))
    assert run.containers["app"].running
    return run


@pytest.mark.parametrize(
    ("pullable", "starts"),
    [(None, True), ({CONTAINER.image}, False)],
    ids=["any image can be pulled", "strict"],
)
def test_only_a_strict_node_prepares_a_simulated_pod(
    pullable: set[str] | None,
    starts: bool,  # noqa: FBT001 - an expectation
) -> None:
    simulation = Simulation(minor=36, timing=Timing(), pullable=pullable)
    run = PodRun(object=pod(), simulation=simulation)
    run.observe(run.object)
    run.admit(NOW, None, ip="10.244.0.10")
    run.advance(NOW + timedelta(seconds=5))
    assert run.containers["app"].running == starts
    observations.prepared(run, NOW)
    run.advance(NOW + timedelta(seconds=5))
    assert run.containers["app"].running


def exit_of(run: PodRun, code: int, *, after: float = 10) -> None:
    container = run.containers["app"]
    now = NOW + timedelta(seconds=after)
    observations.exited(run, now, name="app", container_id=container.container_id, exit_code=code)


def test_a_process_is_ready_when_its_probe_succeeds() -> None:
    run = running()
    container = run.containers["app"]
    assert not container.is_ready(NOW)
    probed = partial(
        observations.probed,
        run,
        NOW,
        name="app",
        container_id=container.container_id,
        kind=ProbeKind.READINESS,
    )
    probed(success=True)
    assert container.is_ready(NOW)
    probed(success=False, message="503")
    assert not container.is_ready(NOW)
    assert run.notices[-1].message == "Readiness probe failed: 503"


def test_restarts_are_delayed_increasingly() -> None:
    run = running()
    exit_of(run, 3)
    container = run.containers["app"]
    assert container.ended is not None
    assert container.ended.exit_code == 3
    assert container.restart_at == NOW + timedelta(seconds=11)
    run.advance(NOW + timedelta(seconds=11))
    exit_of(run, 3, after=12)
    assert container.waiting is not None
    assert container.waiting[0] == "CrashLoopBackOff"


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        pytest.param("Never", 0, Phase.SUCCEEDED, id="success"),
        pytest.param("Never", 1, Phase.FAILED, id="failure"),
        pytest.param("OnFailure", 0, Phase.SUCCEEDED, id="success with restartPolicy OnFailure"),
    ],
)
def test_the_phase_of_a_pod_whose_process_has_ended(policy: str, code: int, phase: Phase) -> None:
    run = running(restart_policy=policy)
    exit_of(run, code)
    assert run.phase is phase


def test_the_exit_of_an_earlier_run_is_ignored() -> None:
    run = running()
    observations.exited(run, NOW, name="app", container_id="containerd://earlier", exit_code=1)
    assert run.containers["app"].running


def test_a_deleted_pod_exists_until_its_process_has_ended() -> None:
    run = running()
    run.observe(pod(deleting=True))
    run.advance(NOW + timedelta(seconds=20))
    assert not run.ended
    assert run.due(NOW + timedelta(seconds=20)) is None
    exit_of(run, 0, after=25)
    run.advance(NOW + timedelta(seconds=25))
    assert run.ended
