"""The network of the pods: addresses of the loopback interface, in a new network namespace.

In the namespace of the machine nothing is changed.
"""

import fcntl
import os
import socket
import struct

_FIRST = "10.64.0.1"
_MASK = "255.240.0.0"
_WORKERS = 16  # networks of 16 bits in it, one for each worker of pytest

# linux/sockios.h and linux/if.h
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_SET_ADDRESS, _SET_MASK = 0x8916, 0x891C
_UP = 1


def pod_network() -> str:
    """Return the network for the pods of a cluster of this worker."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return f"10.{64 + worker % _WORKERS}.0.0/16"


def prepare() -> str:
    """Add the addresses to a new network namespace; return the reason if this isn't possible."""
    if _is_own(_FIRST):
        return ""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            if _flags(control) & _UP:
                return "these tests need a network namespace of their own: run `make test-install`"
            _ioctl(control, _SET_ADDRESS, b"lo:1", _address(_FIRST))
            _ioctl(control, _SET_MASK, b"lo:1", _address(_MASK))
            _ioctl(control, _SET_FLAGS, b"lo", struct.pack("h", _flags(control) | _UP))
    except OSError as error:
        return f"the addresses of pods can't be added to the loopback interface: {error}"
    return ""


def _is_own(address: str) -> bool:
    """Return True if the machine would send to an address from itself. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 1))
        except OSError:
            return False
        return str(probe.getsockname()[0]) == address


def _flags(control: socket.socket) -> int:
    answer = _ioctl(control, _GET_FLAGS, b"lo", b"")
    return int(struct.unpack_from("h", answer, 16)[0])


def _address(text: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))


def _ioctl(control: socket.socket, code: int, name: bytes, value: bytes) -> bytes:
    return fcntl.ioctl(control, code, struct.pack("16s24s", name, value))
