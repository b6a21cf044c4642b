"""Requests of pods, recommendations for them, and their usage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import msgspec

from sandbox.load.layout import CONTAINERS

MEBI = 2**20
SHARE = 50  # of this number of VPAs one gets a new target with each list of metrics
GROWTH = 1.1  # the factor by which the memory of its pods grows then

Resources: TypeAlias = Mapping[str, Mapping[str, str]]
"""``resources`` of a container: requests and limits, quantities by resource."""


class UnknownChangeError(Exception):
    """An unsupported change of a patch; the text names it."""


@dataclass(frozen=True, slots=True)
class Sized:
    """The resources of a pod's containers, also as the encoded parts of the pod."""

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
        """Return the resources after a JSON patch of the resize subresource.

        Raises:
            UnknownChangeError: the patch changes anything but requests and limits, or removes a
                value.
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
    """Return containers that request millicores and bytes, with limits of twice as much."""
    return Sized.of(
        {
            "limits": {"cpu": f"{2 * cpu}m", "memory": f"{2 * memory}"},
            "requests": {"cpu": f"{cpu}m", "memory": f"{memory}"},
        }
        for cpu, memory in requests
    )


STALE = with_limits(((100, 128 * MEBI), (20, 64 * MEBI)))
"""The requests of pods that are not right-sized: less than any lower bound."""


def target(vpa: int) -> tuple[tuple[int, int], ...]:
    """Return the first recommended millicores and bytes for the containers of a VPA's pods."""
    return (
        (200 + vpa % 800, (256 + vpa % 700) * MEBI),
        (50 + vpa % 97, (96 + vpa % 101) * MEBI),
    )


def recommendation(amounts: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return ``containerRecommendations`` with bounds around the targets."""
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
    """Return how often a VPA's pods have grown by the ``generation``-th list of metrics."""
    first = vpa % SHARE or SHARE
    return (generation - first) // SHARE + 1 if generation >= first else 0


def usage(vpa: int, slot: int, generation: int) -> tuple[tuple[int, int], ...]:
    """Return the nanocores and KiB that the containers of a pod use.

    They vary by a few percent below the first target. The highest memory of a VPA is constant, but
    grows once in fifty lists.
    """
    variation = (slot * 7 + generation * 13) % 16
    grown = GROWTH ** growths(vpa, generation)
    return tuple(
        (
            cpu * 1_000_000 * (72 + variation) // 100,
            int(memory * grown) * (84 - variation // 8) // 100 // 1024,
        )
        for cpu, memory in target(vpa)
    )


def _quantities(cpu: int, memory: int) -> dict[str, str]:
    return {"cpu": f"{cpu}m", "memory": f"{memory}"}
