"""Amounts compared with the reference's, ``humanize`` and ``round_up`` included."""

from collections.abc import Callable

from common import resources
from golden_data import Differences, rows

OPS: dict[str, Callable[..., object]] = {
    "cpu_from_cores": resources.cpu_from_cores,
    "memory_from_bytes": resources.memory_from_bytes,
    "scale": resources.scale,
    "cpu_quantity": lambda amount: str(resources.cpu_quantity(amount)),
    "memory_quantity": lambda amount: str(resources.memory_quantity(amount)),
}


def test_amounts() -> None:
    differences = Differences()
    for row in rows("amounts"):
        operation = OPS.get(row.input["op"])
        if operation is not None:
            factor = (row.input["factor"],) if "factor" in row.input else ()
            got = operation(row.input["value"], *factor)
            differences.check(row.id, row.input["op"], got, row.expected)
    differences.none_in(900)
