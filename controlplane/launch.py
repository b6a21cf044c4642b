"""Replace this process by a program that ends with its parent: ``PARENT PROGRAM [ARGUMENT …]``.

On Linux the kernel kills the program when the process PARENT ends, even if that was killed. On
other systems only an orderly end of the parent ends it. Only the standard library is imported,
because this runs before every server and container.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; it survives execve
CANNOT_RUN = 128  # the exit code by which container runtimes report a program that can't start


def main() -> None:
    """Request the signal, check that the parent still runs, then replace this process."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit(CANNOT_RUN)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"can't run {command[0]}: {error.strerror}\n")
        sys.exit(CANNOT_RUN)


if __name__ == "__main__":
    main()
