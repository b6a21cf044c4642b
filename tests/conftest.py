"""The time limits of tests, by folder; a marker of a test overrides them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
SECONDS = {
    "unit": 15,
    "golden": 60,
    "deploy": 15,
    "conformance": 30,
    "shell": 120,
    "process": 240,
    "proofs": 600,
    "images": 900,
    "install": 900,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Set the limit of each folder, several times the duration of its tests on an idle machine.

    With coverage they take up to three times as long.
    """
    factor = 3 if config.getoption("cov_source", None) else 1
    for item in items:
        folder = item.path.relative_to(ROOT).parts[0]
        if folder in SECONDS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(factor * SECONDS[folder]))
