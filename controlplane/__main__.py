"""The program: ``python -P -m controlplane SCENARIO.yaml --kubeconfig=PATH``.

The scenario is the first argument; without one the cluster has a single node. The servers come from
``make controlplane``, or from the folder that KUBEBUILDER_ASSETS names.
"""

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from common.errors import ConfigError
from common.runtime import logs
from common.runtime.service import leaves, run
from controlplane import binaries
from controlplane.cluster import ControlPlane, running_control_plane
from controlplane.processes import ProcessEndedError
from controlplane.servers import NotReadyError
from controlplane.settings import Settings
from sandbox.program import read_command, run_until_stopped
from sandbox.scenario import Scenario

PROGRAM = "controlplane"


def main() -> None:
    """Entry point of the program."""
    code = 0
    try:
        code = run(PROGRAM, lambda: _main(sys.argv[1:]))
    except* (ProcessEndedError, NotReadyError) as group:
        for error in leaves(group):
            print(f"{PROGRAM}: {error}", file=sys.stderr)
        code = 1
    sys.exit(code)


async def _main(argv: Sequence[str]) -> None:
    scenario, settings = read_command(Settings, argv, program=PROGRAM)
    logs.configure(settings.verbosity, settings.logging_format)
    await run_until_stopped(
        _cluster(scenario, settings),
        settings.kubeconfig,
        title=lambda cluster: f"Control plane ready: Kubernetes {cluster.version}",
        nodes=len(scenario.nodes),
    )


@contextlib.asynccontextmanager
async def _cluster(scenario: Scenario, settings: Settings) -> AsyncIterator[ControlPlane]:
    with _folder(settings.folder) as folder:
        async with running_control_plane(
            scenario,
            folder=folder,
            binaries=binaries.find(),
            port=settings.port,
            metrics=settings.metrics,
        ) as cluster:
            yield cluster


@contextlib.contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    """Create the given folder, which is kept, or a temporary one.

    Raises:
        ConfigError: the folder isn't empty, or can't be created.
    """
    if wanted is None:
        with TemporaryDirectory(prefix="controlplane-") as folder:
            yield Path(folder)
        return
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        used = any(wanted.iterdir())
    except OSError as error:
        raise ConfigError(f"--folder: {wanted}: {error.strerror}") from error
    if used:
        raise ConfigError(f"--folder: {wanted} is not empty")
    yield wanted


if __name__ == "__main__":
    main()
