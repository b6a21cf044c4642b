"""Modules that a process doesn't import, because they cost memory and start-up time."""

import subprocess
import sys

import pytest

COSTLY = ("kubernetes_asyncio", "sandbox", "pytest")


@pytest.mark.parametrize("process", ["recommender", "updater", "admission", "certs"])
def test_a_process_imports_the_client_library_only_for_a_kubeconfig(process: str) -> None:
    program = f"import {process}.__main__, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    imported = done.stdout.split()
    assert f"{process}.__main__" in imported
    assert [name for name in imported if name.partition(".")[0] in COSTLY] == []
