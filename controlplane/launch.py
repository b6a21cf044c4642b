"""Become a program that ends with its parent: ``launch.py PARENT PROGRAM [ARGUMENT …]``.

Run by path, in an interpreter of its own without our packages: it is there for milliseconds. On
Linux the kernel kills the program when the process PARENT ends, even when that was killed itself;
elsewhere only an orderly end of the parent ends it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; it survives execve


def main() -> None:
    """Ask for the signal, then look whether the parent was gone before, then go over."""
    parent, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)
    os.execv(program, sys.argv[2:])  # noqa: S606 - no shell is what is wanted


if __name__ == "__main__":
    main()
