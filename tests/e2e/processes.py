"""The processes of pods: memory, listening ports, kills. Linux only: reads /proc."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from controlplane.processes import usage_of

_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


def resident_mib(uid: str) -> float:
    """Return the resident memory of a pod's processes, in MiB."""
    return sum(usage_of(int(folder.name)).memory_mib for folder in _processes(uid))


def kill(uid: str) -> None:
    """Kill the processes of a pod, as a crash does: they can't clean up."""
    for folder in _processes(uid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(folder.name), signal.SIGKILL)


def listening_ports(uid: str) -> set[int]:
    """Return the TCP ports on which the processes of a pod listen."""
    sockets: dict[str, int] = {}
    for family in ("tcp", "tcp6"):
        for line in Path("/proc/net", family).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == _LISTEN:
                sockets[f"socket:[{rest[5]}]"] = int(local.rpartition(":")[2], 16)
    return {
        sockets[file] for folder in _processes(uid) for file in _open_files(folder) & sockets.keys()
    }


def _processes(uid: str) -> Iterator[Path]:
    """Yield the /proc folders of processes whose command line contains the pod's folder."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and f"/{uid}/" in (folder / "cmdline").read_text():
                yield folder
        except (OSError, UnicodeDecodeError):  # ended meanwhile, or another program
            continue


def _open_files(process: Path) -> set[str]:
    found = set()
    for descriptor in (process / "fd").iterdir():
        try:
            found.add(str(descriptor.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return found
