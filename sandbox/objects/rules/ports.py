"""What a port may be: a number, or the name of one of a container's ports.

Source: ``IsValidPortNum`` and ``IsValidPortName``, k8s.io/apimachinery
pkg/util/validation/validation.go; ``supportedPortProtocols``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

import re
from collections.abc import Iterator
from typing import Final

from common.errors import Cause
from sandbox.errors import field_invalid, fields_invalid

PORTS: Final = range(1, 65536)
PORT_RULE: Final = f"must be between {PORTS[0]} and {PORTS[-1]}, inclusive"
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

_LONGEST_NAME: Final = 15
_NAME: Final = re.compile("[-a-z0-9]+")
_LETTER: Final = re.compile("[a-z]")


def port_number_causes(port: int, path: str) -> Iterator[Cause]:
    """A number that is none of a port."""
    if port not in PORTS:
        yield field_invalid(path, port, PORT_RULE)


def port_name_problems(name: str) -> Iterator[str]:
    """Why a name is none of a port."""
    if len(name) > _LONGEST_NAME:
        yield f"must be no more than {_LONGEST_NAME} characters"
    if _NAME.fullmatch(name) is None:
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if _LETTER.search(name) is None:
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def port_causes(port: int | str, path: str) -> Iterator[Cause]:
    """What is neither the number nor the name of a port."""
    if isinstance(port, str):
        yield from fields_invalid(path, port, port_name_problems(port))
    else:
        yield from port_number_causes(port, path)
