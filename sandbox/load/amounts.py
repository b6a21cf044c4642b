"""What pods ask for, what is recommended for them, and what they use."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import msgspec

from sandbox.load.layout import CONTAINERS

MEBI = 2**20
SHARE = 50  # one VPA in so many gets a new target with each list of metrics: two percent
GROWTH = 1.1  # by how much its pods then use more memory

Resources: TypeAlias = Mapping[str, Mapping[str, str]]
"""``resources`` of a container: requests and limits, quantities by resource."""


class UnknownChangeError(Exception):
    """A patch asks for something that the load mode doesn't know; the text says what."""


@dataclass(frozen=True, slots=True)
class Sized:
    """The resources of a pod's containers, also as the bytes that the pod shows."""

    containers: tuple[Resources, ...]
    spec: tuple[bytes, ...]
    allocated: tuple[bytes, ...]

    @classmethod
    def of(cls, containers: Iterable[Resources]) -> Self:
        kept = tuple(containers)
        return cls(
            containers=kept,
            spec=tuple(msgspec.json.encode(one) for one in kept),
            allocated=tuple(msgspec.json.encode(one.get("requests", {})) for one in kept),
        )

    def patched(self, operations: Iterable["Operation"]) -> "Sized":
        """The same after a JSON patch of the resize subresource.

        Raises:
            UnknownChangeError: it is about anything but requests and limits, or takes away.
        """
        containers: list[dict[str, dict[str, str]]] = [
            {kind: dict(values) for kind, values in one.items()} for one in self.containers
        ]
        for operation in operations:
            parts = operation.path.split("/")[1:]
            if operation.op not in ("add", "replace") or parts[:2] != ["spec", "containers"]:
                raise UnknownChangeError(f"{operation.op} {operation.path}")
            match parts[2:]:
                case [index, "resources", kind, resource] if int(index) < len(containers):
                    containers[int(index)].setdefault(kind, {})[resource] = str(operation.value)
                case _:
                    raise UnknownChangeError(f"{operation.op} {operation.path}")
        return Sized.of(containers)


class Operation(msgspec.Struct, frozen=True):
    """One operation of a JSON patch."""

    op: str
    path: str
    value: Any = None


def with_limits(requests: Sequence[tuple[int, int]]) -> Sized:
    """Containers that ask for millicores and bytes, with limits of twice as much."""
    return Sized.of(
        {
            "limits": {"cpu": f"{2 * cpu}m", "memory": f"{2 * memory}"},
            "requests": {"cpu": f"{cpu}m", "memory": f"{memory}"},
        }
        for cpu, memory in requests
    )


STALE = with_limits(((100, 128 * MEBI), (20, 64 * MEBI)))
"""What pods ask for that are not right-sized: less than any lower bound."""


def target(vpa: int) -> tuple[tuple[int, int], ...]:
    """Millicores and bytes that are recommended for the containers of a VPA's pods at first."""
    return (
        (200 + vpa % 800, (256 + vpa % 700) * MEBI),
        (50 + vpa % 97, (96 + vpa % 101) * MEBI),
    )


def recommendation(amounts: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """``containerRecommendations`` with bounds around the targets."""
    return [
        {
            "containerName": name,
            "lowerBound": _quantities(cpu * 7 // 10, memory * 7 // 10),
            "target": _quantities(cpu, memory),
            "uncappedTarget": _quantities(cpu, memory),
            "upperBound": _quantities(cpu * 2, memory * 2),
        }
        for name, (cpu, memory) in zip(CONTAINERS, amounts, strict=True)
    ]


def growths(vpa: int, generation: int) -> int:
    """How often a VPA's pods have grown by the ``generation``-th list of metrics."""
    turn = vpa % SHARE or SHARE
    return (generation - turn) // SHARE + 1 if generation >= turn else 0


def usage(vpa: int, slot: int, generation: int) -> tuple[tuple[int, int], ...]:
    """Nanocores and KiB that the containers of a pod use.

    They waver by a few percent below what the first target leaves room for. The highest memory
    of a VPA stays as it is, but with its turn, which comes once in fifty lists.
    """
    wavering = (slot * 7 + generation * 13) % 16
    grown = GROWTH ** growths(vpa, generation)
    return tuple(
        (
            cpu * 1_000_000 * (72 + wavering) // 100,
            int(memory * grown) * (84 - wavering // 8) // 100 // 1024,
        )
        for cpu, memory in target(vpa)
    )


def _quantities(cpu: int, memory: int) -> dict[str, str]:
    return {"cpu": f"{cpu}m", "memory": f"{memory}"}
