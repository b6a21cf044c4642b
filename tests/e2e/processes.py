"""The processes behind pods that really run: their memory, and the ports on which they listen.

Linux only, as /proc is.
"""

from collections.abc import Iterator
from pathlib import Path

from controlplane.processes import usage_of

_LISTENS = "0A"  # as /proc/net/tcp has it


def memory(uid: str) -> float:
    """Return what the processes of a pod have resident, in MiB."""
    return sum(usage_of(int(folder.name)).memory_mib for folder in _processes(uid))


def listening(uid: str) -> set[int]:
    """Return the TCP ports on which the processes of a pod listen."""
    sockets: dict[str, int] = {}
    for family in ("tcp", "tcp6"):
        for line in Path("/proc/net", family).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == _LISTENS:
                sockets[f"socket:[{rest[5]}]"] = int(local.rpartition(":")[2], 16)
    return {
        sockets[opened] for folder in _processes(uid) for opened in _opened(folder) & sockets.keys()
    }


def _processes(uid: str) -> Iterator[Path]:
    """Those whose command line names the folder of the pod."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and f"/{uid}/" in (folder / "cmdline").read_text():
                yield folder
        except (OSError, UnicodeDecodeError):  # it has ended, or is none of ours
            continue


def _opened(process: Path) -> set[str]:
    found = set()
    for descriptor in (process / "fd").iterdir():
        try:
            found.add(str(descriptor.readlink()))
        except FileNotFoundError:  # it was closed just now
            continue
    return found
