"""The environment of a container that really runs, and containers that wait for theirs."""

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


def runnable(**container: Any) -> RunnablePod:
    return msgspec.convert(pod("web", generation=1, **container), RunnablePod)


def made(objects: Mapping[Reference, Data], **container: Any) -> dict[str, str]:
    """The environment of a container, of which everything that ``objects`` has has been read."""
    found = runnable(**container)
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
    want: dict[str, str] | str  # variables, or what is missing


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
        id="a config map as a whole, with a prefix, without what is binary",
        env_from=[{"prefix": "APP_", "configMapRef": {"name": "settings"}}],
        want={"APP_level": "3"},
    ),
    Case(
        id="a single variable wins over a whole object",
        env_from=[{"secretRef": {"name": "key"}}],
        env=[{"name": "word", "value": "plain"}],
        want={"word": "plain"},
    ),
    Case(
        id="the later of two whole objects wins",
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
        id="a binary key of a config map is no text",
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
        id="a field that is none",
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.moon"}}}],
        want="no such field of a pod: spec.moon",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_variables(case: Case) -> None:
    other = {"word": b"other"}
    objects = {**OBJECTS, Reference(SourceKind.SECRET, "other"): Data(other, other)}
    make = partial(made, objects, env=case.env, envFrom=case.env_from)
    if isinstance(case.want, dict):
        assert make() == case.want
        return
    with pytest.raises(VariableError) as caught:
        make()
    assert str(caught.value) == case.want


# What becomes of a container that lacks a variable

LACKS = 'secret "key" not found'


class Run:
    """A pod whose containers are processes, and the clock that its kubelet goes by."""

    def __init__(self, *, init: tuple[dict[str, Any], ...] = (), problem: str = LACKS) -> None:
        simulation = Simulation(minor=36, timing=Timing(), images={"shop": ["true"]})
        spec = msgspec.convert(pod("web", generation=1, init=init), RunnablePod)
        self.now = NOW
        self.pod = PodRun(object=spec, simulation=simulation)
        self.pod.observe(spec)
        self.pod.admit(NOW, None, ip="127.64.0.10")
        self.learn(problem)
        observations.prepared(self.pod, NOW)
        self.wait(5)

    def learn(self, problem: str, name: str = "app") -> None:
        observations.configured(self.pod, self.now, name=name, problem=problem)
        self.pod.advance(self.now)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.pod.advance(self.now)

    def ends(self, code: int, name: str = "app") -> None:
        container = self.pod.containers[name]
        observations.exited(
            self.pod, self.now, name=name, container_id=container.container_id, exit_code=code
        )
        self.pod.advance(self.now)

    def status(self) -> Any:
        return status_patch(self.pod, host_ip="", now=self.now)["status"]

    def container(self) -> Any:
        return self.status()["containerStatuses"][0]


def test_a_container_waits_for_its_variables_and_says_so_once() -> None:
    run = Run()
    run.wait(60)
    told = run.container()
    assert told["state"] == {"waiting": {"reason": "CreateContainerConfigError", "message": LACKS}}
    assert (told["restartCount"], told["started"], told["ready"]) == (0, False, False)
    assert run.status()["phase"] == Phase.PENDING
    assert [(one.reason, one.message) for one in run.pod.notices] == [("Failed", f"Error: {LACKS}")]
    assert run.pod.due(run.now) is None, "only the missing object can bring it on"


def test_another_thing_that_is_missing_is_told_anew() -> None:
    run = Run()
    run.learn("couldn't find key word in Secret shop/key")
    message = run.container()["state"]["waiting"]["message"]
    assert message == "couldn't find key word in Secret shop/key"
    assert [one.message for one in run.pod.notices] == [f"Error: {LACKS}", f"Error: {message}"]


def test_it_starts_as_soon_as_nothing_is_missing() -> None:
    run = Run()
    run.learn("")
    assert "running" in run.container()["state"]
    assert run.container()["restartCount"] == 0
    assert run.status()["phase"] == Phase.RUNNING


def test_what_is_missing_while_it_runs_matters_at_its_next_start() -> None:
    run = Run(problem="")
    run.learn(LACKS)
    assert "running" in run.container()["state"]
    run.ends(3)
    run.wait(5)
    told = run.container()
    assert told["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    assert told["lastState"]["terminated"]["exitCode"] == 3
    assert told["restartCount"] == 0
    run.learn("")
    told = run.container()
    assert "running" in told["state"]
    assert told["lastState"]["terminated"]["exitCode"] == 3
    assert told["restartCount"] == 1


def test_a_container_that_lacks_nothing_starts_beside_one_that_does() -> None:
    run = Run(init=({"name": "proxy", "image": "shop", "restartPolicy": "Always"},))
    (proxy,) = run.status()["initContainerStatuses"]
    assert "running" in proxy["state"]
    run.ends(1, "proxy")
    run.wait(5)
    run.learn("")
    (proxy,) = run.status()["initContainerStatuses"]
    assert proxy["restartCount"] == 1, "it isn't started anew with the other"
    assert "running" in run.container()["state"]


def test_an_init_container_that_waits_holds_back_all_others() -> None:
    run = Run(init=({"name": "first", "image": "shop"},), problem="")
    run.ends(1, "first")
    run.learn(LACKS, "first")
    run.wait(5)
    assert run.status()["initContainerStatuses"][0]["state"]["waiting"]["message"] == LACKS
    assert run.container()["state"]["waiting"]["reason"] == "ContainerCreating"
    run.learn("", "first")
    run.ends(0, "first")
    assert "running" in run.container()["state"]
