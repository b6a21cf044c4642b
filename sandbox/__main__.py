"""Run a cluster: ``python -P -m sandbox SCENARIO.yaml --kubeconfig=PATH``.

The scenario is the first argument; without one the cluster has a single node.
"""

import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from common.runtime import logs
from common.runtime.service import run
from sandbox.apiserver.memory import relax_garbage_collection
from sandbox.cluster import Cluster, running_cluster
from sandbox.program import read_command, run_until_stopped
from sandbox.scenario import Scenario
from sandbox.settings import Settings

PROGRAM = "sandbox"


def main() -> None:
    """Entry point of the program."""
    sys.exit(run(PROGRAM, lambda: _main(sys.argv[1:])))


async def _main(argv: Sequence[str]) -> None:
    scenario, settings = read_command(Settings, argv, program=PROGRAM)
    logs.configure(settings.verbosity, settings.logging_format)
    if settings.kubernetes_version is not None:
        scenario = replace(scenario, version=settings.kubernetes_version)
    await run_until_stopped(
        _cluster(scenario, settings.port),
        settings.kubeconfig,
        title=lambda _: f"Sandbox cluster ready: Kubernetes {scenario.version}",
        nodes=len(scenario.nodes),
    )


@contextlib.asynccontextmanager
async def _cluster(scenario: Scenario, port: int) -> AsyncIterator[Cluster]:
    async with running_cluster(scenario, port=port) as cluster:
        relax_garbage_collection()
        yield cluster


if __name__ == "__main__":
    main()
