"""Become another program that dies with its parent: ``launcher.py PARENT PROGRAM [ARGUMENT]...``.

A kubelet that is killed can't end its processes any more; on Linux the kernel does that for it.
The request survives the change of program, so it needs no help from that one. Only the standard
library is imported, for this runs before every container.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_CANNOT_RUN = 128  # as container runtimes report a program that can't be started


def main() -> None:
    """Replace this process."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):  # it died before we asked
            sys.exit(_CANNOT_RUN)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"can't run {command[0]}: {error.strerror}\n")
        sys.exit(_CANNOT_RUN)


if __name__ == "__main__":
    main()
