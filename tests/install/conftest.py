"""The network of the pods."""

import pytest

from install.pod_network import prepare


@pytest.fixture(scope="session", autouse=True)
def addresses() -> None:
    """Add the addresses of pods; end the run if that isn't possible."""
    if reason := prepare():
        pytest.exit(reason, returncode=2)
