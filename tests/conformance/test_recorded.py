"""The sandbox responds to several hundred requests as a real API server did."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from recorded_requests import store
from recorded_requests.hook import webhook
from recorded_requests.normal import differences
from recorded_requests.runner import Answer, Runner, runner
from recorded_requests.subjects import PREPARATION, SUBJECTS
from sandbox.cluster import running_cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Runner]:
    async with (
        running_cluster() as cluster,
        webhook() as hook,
        runner(cluster.connection, cluster.authority, hook) as sender,
    ):
        await sender.prepare(PREPARATION)
        yield sender


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("subject", SUBJECTS)
async def test_answers(subject: str, sandbox: Runner) -> None:
    recorded = store.read(subject)
    cases = SUBJECTS[subject]
    assert {case.name for case in cases} == set(recorded), "to record them again: make record"
    answers = await sandbox.run(cases)
    wrong = {name: lines for name in recorded if (lines := _lines(answers[name], recorded[name]))}
    differences = [
        f"{name}\n" + "\n".join(f"    {line}" for line in lines) for name, lines in wrong.items()
    ]
    assert not differences, f"{len(differences)} cases of {len(cases)} differ:\n" + "\n".join(
        differences
    )


def test_every_case_has_a_unique_name() -> None:
    names = [case.name for cases in SUBJECTS.values() for case in cases]
    assert len(names) == len(set(names)), "the name of a case is its namespace"


def _lines(got: list[Answer], want: list[Answer]) -> list[str]:
    return [
        line
        for index, (mine, theirs) in enumerate(zip(got, want, strict=True))
        for line in differences(mine, theirs, f"answer {index}")
    ]
