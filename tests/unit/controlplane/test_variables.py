"""Environment variables of containers that really run, and containers that wait for theirs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.containers import observations
from controlplane.containers.site import Place
from controlplane.containers.sources import Data, Reference, SourceKind
from controlplane.containers.variables import VariableError, environment, references
from kubelet_driver import pod
from sandbox.kubelet.containers import CONFIG_ERROR
from sandbox.kubelet.pod_lifecycle import Phase, PodRun, Simulation
from sandbox.kubelet.status import status_patch
from sandbox.kubelet.timing import Timing
from sandbox.kubelet.wire import RunnablePod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = Place(kubeconfig=Path("/k"), root=Path("/r"), ip="127.64.0.10", host_ip="127.0.0.1")
SECRET = Reference(SourceKind.SECRET, "key")
CONFIG = Reference(SourceKind.CONFIG_MAP, "settings")
WORD = {"word": b"swordfish"}
OBJECTS = {
    SECRET: Data(WORD, WORD),
    CONFIG: Data({"level": b"3"}, {"level": b"3", "picture": b"\xff"}),
}


def environment_of(objects: Mapping[Reference, Data], **container: Any) -> dict[str, str]:
    """Return the environment of a container whose references are read from ``objects``."""
    found = msgspec.convert(pod("web", generation=1, **container), RunnablePod)
    spec = found.spec.containers[0]
    read = {one: objects.get(one) for one in references(spec)}
    return environment(found, spec, PLACE, read)


def from_secret(name: str = "key", key: str = "word", **more: Any) -> dict[str, Any]:
    return {"valueFrom": {"secretKeyRef": {"name": name, "key": key, **more}}}


def from_config(name: str = "settings", key: str = "level", **more: Any) -> dict[str, Any]:
    return {"valueFrom": {"configMapKeyRef": {"name": name, "key": key, **more}}}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    env: list[dict[str, Any]] = field(default_factory=list)
    env_from: list[dict[str, Any]] = field(default_factory=list)
    want: dict[str, str] | str  # variables, or the message about a missing one


CASES = [
    Case(id="a key of a secret", env=[{"name": "A", **from_secret()}], want={"A": "swordfish"}),
    Case(id="a key of a config map", env=[{"name": "A", **from_config()}], want={"A": "3"}),
    Case(
        id="a variable refers to one from a secret",
        env=[{"name": "A", **from_secret()}, {"name": "B", "value": "<$(A)>"}],
        want={"A": "swordfish", "B": "<swordfish>"},
    ),
    Case(
        id="a secret as a whole",
        env_from=[{"secretRef": {"name": "key"}}],
        want={"word": "swordfish"},
    ),
    Case(
        id="a config map as a whole, with a prefix, without binary keys",
        env_from=[{"prefix": "APP_", "configMapRef": {"name": "settings"}}],
        want={"APP_level": "3"},
    ),
    Case(
        id="a single variable takes precedence over a whole object",
        env_from=[{"secretRef": {"name": "key"}}],
        env=[{"name": "word", "value": "plain"}],
        want={"word": "plain"},
    ),
    Case(
        id="the later of two whole objects takes precedence",
        env_from=[{"secretRef": {"name": "key"}}, {"secretRef": {"name": "other"}}],
        want={"word": "other"},
    ),
    Case(
        id="no such secret",
        env=[{"name": "A", **from_secret(name="lost")}],
        want='secret "lost" not found',
    ),
    Case(
        id="no such config map as a whole",
        env_from=[{"configMapRef": {"name": "lost"}}],
        want='configmap "lost" not found',
    ),
    Case(
        id="no such key in a secret",
        env=[{"name": "A", **from_secret(key="lost")}],
        want="couldn't find key lost in Secret shop/key",
    ),
    Case(
        id="a binary key of a config map",
        env=[{"name": "A", **from_config(key="picture")}],
        want="couldn't find key picture in ConfigMap shop/settings",
    ),
    Case(
        id="an optional secret that is missing",
        env=[{"name": "A", **from_secret(name="lost", optional=True)}],
        want={},
    ),
    Case(
        id="an optional key that is missing",
        env=[{"name": "A", **from_config(key="lost", optional=True)}],
        want={},
    ),
    Case(
        id="an optional whole object that is missing",
        env_from=[{"secretRef": {"name": "lost", "optional": True}}],
        want={},
    ),
    Case(
        id="a source that isn't supported",
        env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        want="variable A: only values, fieldRef, configMapKeyRef and secretKeyRef are supported",
    ),
    Case(
        id="an unknown field",
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.moon"}}}],
        want="no such field of a pod: spec.moon",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_variables(case: Case) -> None:
    other = {"word": b"other"}
    objects = {**OBJECTS, Reference(SourceKind.SECRET, "other"): Data(other, other)}
    make = partial(environment_of, objects, env=case.env, envFrom=case.env_from)
    if isinstance(case.want, dict):
        assert make() == case.want
        return
    with pytest.raises(VariableError) as caught:
        make()
    assert str(caught.value) == case.want


# Containers that wait for a variable

LACKS = 'secret "key" not found'


class Run:
    """A pod whose containers are processes, and the clock of its kubelet."""

    def __init__(self, *, init: tuple[dict[str, Any], ...] = (), problem: str = LACKS) -> None:
        simulation = Simulation(minor=36, timing=Timing(), images={"shop": ["true"]})
        spec = msgspec.convert(pod("web", generation=1, init=init), RunnablePod)
        self.now = NOW
        self.pod = PodRun(object=spec, simulation=simulation)
        self.pod.observe(spec)
        self.pod.admit(NOW, None, ip="127.64.0.10")
        self.report_problem(problem)
        observations.prepared(self.pod, NOW)
        self.wait(5)

    def report_problem(self, problem: str, name: str = "app") -> None:
        waiting = (CONFIG_ERROR, problem) if problem else None
        observations.configured(self.pod, self.now, name=name, problem=waiting)
        self.pod.advance(self.now)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.pod.advance(self.now)

    def end(self, code: int, name: str = "app") -> None:
        container = self.pod.containers[name]
        observations.exited(
            self.pod, self.now, name=name, container_id=container.container_id, exit_code=code
        )
        self.pod.advance(self.now)

    def status(self) -> Any:
        return status_patch(self.pod, host_ip="", now=self.now)["status"]

    def container(self) -> Any:
        return self.status()["containerStatuses"][0]


def test_a_container_waits_for_its_variables_and_reports_it_once() -> None:
    run = Run()
    run.wait(60)
    status = run.container()
    assert status["state"] == {
        "waiting": {"reason": "CreateContainerConfigError", "message": LACKS}
    }
    assert (status["restartCount"], status["started"], status["ready"]) == (0, False, False)
    assert run.status()["phase"] == Phase.PENDING
    assert [(one.reason, one.message) for one in run.pod.notices] == [("Failed", f"Error: {LACKS}")]
    assert run.pod.due(run.now) is None, "only the missing object can bring it on"


def test_another_missing_object_is_reported_again() -> None:
    run = Run()
    run.report_problem("couldn't find key word in Secret shop/key")
    message = run.container()["state"]["waiting"]["message"]
    assert message == "couldn't find key word in Secret shop/key"
    assert [one.message for one in run.pod.notices] == [f"Error: {LACKS}", f"Error: {message}"]


def test_a_container_starts_as_soon_as_nothing_is_missing() -> None:
    run = Run()
    run.report_problem("")
    assert "running" in run.container()["state"]
    assert run.container()["restartCount"] == 0
    assert run.status()["phase"] == Phase.RUNNING


def test_an_object_that_is_deleted_later_matters_at_the_next_start() -> None:
    run = Run(problem="")
    run.report_problem(LACKS)
    assert "running" in run.container()["state"]
    run.end(3)
    run.wait(5)
    status = run.container()
    assert status["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["restartCount"] == 0
    run.report_problem("")
    status = run.container()
    assert "running" in status["state"]
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["restartCount"] == 1


def test_a_complete_container_starts_beside_one_that_waits() -> None:
    run = Run(init=({"name": "proxy", "image": "shop", "restartPolicy": "Always"},))
    (proxy,) = run.status()["initContainerStatuses"]
    assert "running" in proxy["state"]
    run.end(1, "proxy")
    run.wait(5)
    run.report_problem("")
    (proxy,) = run.status()["initContainerStatuses"]
    assert proxy["restartCount"] == 1, "it isn't restarted with the other"
    assert "running" in run.container()["state"]


def test_a_waiting_init_container_delays_all_others() -> None:
    run = Run(init=({"name": "first", "image": "shop"},), problem="")
    run.end(1, "first")
    run.report_problem(LACKS, "first")
    run.wait(5)
    assert run.status()["initContainerStatuses"][0]["state"]["waiting"]["message"] == LACKS
    assert run.container()["state"]["waiting"]["reason"] == "ContainerCreating"
    run.report_problem("", "first")
    run.end(0, "first")
    assert "running" in run.container()["state"]
