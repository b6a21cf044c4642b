"""Run a cluster: ``python -P -m sandbox SCENARIO.yaml --kubeconfig=PATH``.

The scenario is the first argument; without one the cluster has a single node.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from common.flags import read_flags
from common.runtime import logs
from common.runtime.service import run, serve
from sandbox.apiserver.memory import relax_garbage_collection
from sandbox.cluster import Cluster, running_cluster
from sandbox.kubeconfigs import remove_ours, write_kubeconfig
from sandbox.scenario import Scenario, load_scenario, parse_scenario
from sandbox.settings import Settings

PROGRAM = "sandbox"


def main() -> None:
    """Entry point of the program."""
    sys.exit(run(PROGRAM, lambda: _main(sys.argv[1:])))


async def _main(argv: Sequence[str]) -> None:
    named = bool(argv) and not argv[0].startswith("-")
    settings = read_flags(Settings, argv[1:] if named else argv, program=f"{PROGRAM} [SCENARIO]")
    logs.configure(settings.verbosity, settings.logging_format)
    scenario = load_scenario(argv[0]) if named else parse_scenario("")
    if settings.kubernetes_version is not None:
        scenario = replace(scenario, version=settings.kubernetes_version)
    path = settings.kubeconfig.expanduser().absolute()
    remove_ours(path)

    async def stay(stop: asyncio.Event) -> None:
        async with running_cluster(scenario, port=settings.port) as cluster:
            relax_garbage_collection()
            write_kubeconfig(path, cluster.kubeconfig)
            print(_ready(cluster, scenario, path), flush=True)
            await stop.wait()
        remove_ours(path)

    await serve(stay)


def _ready(cluster: Cluster, scenario: Scenario, path: Path) -> str:
    nodes = len(scenario.nodes)
    return (
        f"Sandbox cluster ready: Kubernetes {scenario.version}, "
        f"{nodes} node{'' if nodes == 1 else 's'}\n"
        f"  server:     {cluster.url}\n"
        f"  kubeconfig: {path}\n"
        f"\n"
        f"  export KUBECONFIG={path}\n"
    )


if __name__ == "__main__":
    main()
