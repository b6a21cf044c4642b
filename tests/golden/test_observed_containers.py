"""The annotation of observed containers compared with the reference."""

from typing import Any

from common.annotations import parse_observed_containers
from golden_data import Differences, rows


def test_observed_containers() -> None:
    differences = Differences()
    for row in rows("observed_containers"):
        value: Any = row.input
        containers = parse_observed_containers(value)
        want = row.expected["containers"]
        differences.check(row.id, "valid", containers is not None, row.expected["valid"])
        differences.check(row.id, "containers", list(containers or ()), list(want or ()))
    differences.none_in(34)
