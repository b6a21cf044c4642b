"""How many pods a Job is to have at a time, and who tells of that at all."""

from dataclasses import dataclass

import pytest

from common.api.meta import OwnedMeta
from common.api.workloads import Condition, Job, JobSpec, JobStatus
from common.target.owners import Controller
from updater.snapshot.workload_size import tells, wanted_by_job


@dataclass(frozen=True, kw_only=True)
class Case:
    """A Job that is to succeed ten times, three at a time."""

    id: str
    want: int
    parallelism: int | None = 3
    completions: int | None = 10
    suspend: bool = False
    succeeded: int = 0
    conditions: tuple[tuple[str, str], ...] = ()


CASES = [
    Case(id="three at a time", want=3),
    Case(id="one, where nothing is said", parallelism=None, completions=None, want=1),
    Case(id="two are left", succeeded=8, want=2),
    Case(id="none is left", succeeded=10, want=0),
    Case(id="more than asked for", succeeded=11, want=0),
    Case(id="no number of successes: all, until the first one", completions=None, want=3),
    Case(id="after that none comes any more", completions=None, succeeded=1, want=0),
    Case(id="suspended", suspend=True, want=0),
    Case(id="paused by its parallelism", parallelism=0, want=0),
    Case(id="complete", conditions=(("Complete", "True"),), want=0),
    Case(id="failed", conditions=(("Failed", "True"),), want=0),
    Case(id="about to fail", conditions=(("FailureTarget", "True"),), want=0),
    Case(id="resumed", conditions=(("Suspended", "False"), ("Failed", "False")), want=3),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_wanted_by_job(case: Case) -> None:
    job = Job(
        metadata=OwnedMeta(name="once", namespace="default"),
        spec=JobSpec(
            parallelism=case.parallelism, completions=case.completions, suspend=case.suspend
        ),
        status=JobStatus(
            succeeded=case.succeeded,
            conditions=tuple(Condition(type=kind, status=word) for kind, word in case.conditions),
        ),
    )
    assert wanted_by_job(job) == case.want


@pytest.mark.parametrize(
    ("kind", "want"),
    [("ReplicaSet", True), ("DaemonSet", True), ("Job", True), ("Rollout", False)],
)
def test_who_tells(kind: str, *, want: bool) -> None:
    assert tells(Controller("default", kind, "web")) is want
