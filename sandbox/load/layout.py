"""Numbers and names of all objects. Each follows from the other.

The VPA ``i`` targets the Deployment ``i`` of the same name. Its ReplicaSets and their pods have the
numbers after those of the previous Deployment. So nothing is looked up, and a hundred thousand
objects take no memory until they change. Namespaces have ranges of numbers, and names have leading
zeros, so lists are sorted like those of a real API server.
"""

from dataclasses import dataclass

NAMESPACES = 50
CONTAINERS = ("app", "proxy")
PODS_ON_A_NODE = 30

_DIGITS = "bcdfghjklmnpqrstvwxz2456789"  # of Kubernetes' random suffixes
_SUFFIX = 5
_HASH = "7d9c5b"  # the beginning of all pod-template hashes; the ReplicaSet's number follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The numbers and names of objects."""

    vpas: int
    pods_per_vpa: int
    group_size: int  # pods of a ReplicaSet; divides pods_per_vpa

    @property
    def pods(self) -> int:
        return self.vpas * self.pods_per_vpa

    @property
    def groups_per_vpa(self) -> int:
        return self.pods_per_vpa // self.group_size

    @property
    def groups(self) -> int:
        return self.vpas * self.groups_per_vpa

    @property
    def namespaces(self) -> int:
        return min(NAMESPACES, self.vpas)

    @property
    def nodes(self) -> int:
        return -(-self.pods // PODS_ON_A_NODE)

    def namespace(self, vpa: int) -> str:
        return namespace_name(vpa * self.namespaces // self.vpas)

    def vpas_in(self, namespace: str) -> range:
        """Return the numbers of the VPAs of a namespace; none for an unknown namespace."""
        prefix, _, digits = namespace.partition("-")
        if prefix != "team" or not digits.isdecimal() or namespace_name(int(digits)) != namespace:
            return range(0)
        place, count = int(digits), self.namespaces
        if place >= count:
            return range(0)
        return range(-(-place * self.vpas // count), -(-(place + 1) * self.vpas // count))

    def app(self, vpa: int) -> str:
        """Return the name of a VPA and its Deployment."""
        return f"app-{vpa:05}"

    def vpa(self, app: str) -> int | None:
        """Return the number of a VPA; None for an unknown name."""
        prefix, _, digits = app.partition("-")
        if prefix != "app" or not digits.isdecimal() or int(digits) >= self.vpas:
            return None
        return int(digits) if self.app(int(digits)) == app else None

    def pod_hash(self, group: int) -> str:
        return f"{_HASH}{group % self.groups_per_vpa:04}"

    def group_name(self, group: int) -> str:
        return f"{self.app(group // self.groups_per_vpa)}-{self.pod_hash(group)}"

    def pod_name(self, slot: int, incarnation: int) -> str:
        """Return the name of the ``incarnation``-th pod of a slot."""
        group, place = divmod(slot, self.group_size)
        return f"{self.group_name(group)}-{_suffix(incarnation * self.group_size + place)}"

    def pod(self, name: str) -> tuple[int, int] | None:
        """Return slot and incarnation of a pod; None for an impossible name."""
        app, _, rest = name.rpartition("-")[0].rpartition("-")
        code = _number(name.rpartition("-")[2])
        vpa = self.vpa(app)
        digits = rest.removeprefix(_HASH)
        if vpa is None or code is None or not digits.isdecimal():
            return None
        incarnation, place = divmod(code, self.group_size)
        if int(digits) >= self.groups_per_vpa:
            return None
        slot = (vpa * self.groups_per_vpa + int(digits)) * self.group_size + place
        return (slot, incarnation) if self.pod_name(slot, incarnation) == name else None


def namespace_name(place: int) -> str:
    """Return the name of the n-th namespace."""
    return f"team-{place:03}"


def uid(kind: int, number: int, incarnation: int = 0) -> str:
    """Return a UID; ``kind`` keeps those of different kinds apart."""
    return f"{number:08x}-{incarnation:04x}-4{kind:03x}-8000-5eed{number:08x}"


def _suffix(code: int) -> str:
    found = ""
    while code:
        code, digit = divmod(code, len(_DIGITS))
        found = _DIGITS[digit] + found
    return found.rjust(_SUFFIX, _DIGITS[0])


def _number(suffix: str) -> int | None:
    if len(suffix) != _SUFFIX or not all(digit in _DIGITS for digit in suffix):
        return None
    code = 0
    for digit in suffix:
        code = code * len(_DIGITS) + _DIGITS.index(digit)
    return code
