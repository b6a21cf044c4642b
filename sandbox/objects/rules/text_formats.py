"""The formats of texts that schemas of custom resources may ask for.

Those that a real server knows and this one doesn't (``email``, ``isbn``, colours and the like) are
taken as kept. Source: k8s.io/kube-openapi pkg/validation/strfmt.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import date
from ipaddress import IPv4Address, IPv6Address, ip_network

Format = Callable[[str], bool]

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(
    r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"


def _readable(read: Callable[[str], object]) -> Format:
    """Whether ``read`` takes it."""

    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Format:
    pattern = re.compile(_UUID % (version, variant), re.IGNORECASE)
    return lambda text: pattern.fullmatch(text) is not None


def _network(text: str) -> object:
    if "/" not in text:
        raise ValueError(text)
    return ip_network(text, strict=False)


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _readable(date.fromisoformat)(text)


def _is_time(text: str) -> bool:
    day, _, time = text.replace("t", "T").partition("T")
    return _is_date(day) and _TIME.fullmatch(time) is not None


# By their names without dashes, as Go compares them.
FORMATS: Mapping[str, Format] = {
    "byte": _readable(lambda text: b64decode(text, validate=True)),
    "cidr": _readable(_network),
    "date": _is_date,
    "datetime": _is_time,
    "ipv4": _readable(IPv4Address),
    "ipv6": _readable(IPv6Address),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}
