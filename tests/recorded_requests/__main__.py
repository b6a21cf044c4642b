"""Record the answers of a real API server: ``python -m recorded_requests [SUBJECT …]``."""

import argparse
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from controlplane.cluster import running_control_plane
from recorded_requests import store
from recorded_requests.hook import webhook
from recorded_requests.runner import runner
from recorded_requests.subjects import PREPARATION, SUBJECTS
from sandbox.scenario import Scenario


async def record(subjects: list[str]) -> None:
    """Send every request of ``subjects`` to a new control plane, and store the responses."""
    with TemporaryDirectory() as folder:
        async with (
            running_control_plane(Scenario(), folder=Path(folder)) as plane,
            webhook() as hook,
            runner(plane.connection, plane.authority, hook) as sender,
        ):
            version = await sender.version()
            await sender.prepare(PREPARATION)
            for subject in subjects:
                answers = await sender.run(SUBJECTS[subject])
                store.write(subject, version, answers)
                print(f"{subject}: {sum(map(len, answers.values()))} answers of {version}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the answers of a real API server.")
    parser.add_argument("subject", nargs="*", help=f"of {', '.join(SUBJECTS)}; all by default")
    given = parser.parse_args()
    asyncio.run(record(given.subject or list(SUBJECTS)))


main()
