"""A wanted decrease of a memory limit in place, or a limit that is added."""

from dataclasses import dataclass

from common.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitDecrease:
    """A wanted decrease of a container's memory limit without a restart."""

    container: str
    limit: Quantity | None  # at present; None: there is none
    request: Quantity  # at present; zero: none
    new_limit: Quantity
    new_request: Quantity
    waits: bool = False  # a pending resize already lowers the limit
