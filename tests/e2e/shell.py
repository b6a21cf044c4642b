"""The shell of an operator."""

from pathlib import Path

from e2e.kubectl import run_command
from helm_program import HELM


async def run_script(
    script: str, *, kubeconfig: Path, folder: Path, seconds: float
) -> tuple[int, str]:
    """Run commands in a folder until one fails; return its exit code, and what all print.

    Helm is on their PATH.

    Raises:
        TimeoutError: they took longer than ``seconds``, and were killed.
    """
    path = f"export PATH={Path(HELM).parent}:$PATH\n" if HELM else ""
    prepared = f"{path}export KUBECONFIG={kubeconfig}\ncd {folder}\n{script}"
    return await run_command("bash", "-euo", "pipefail", "-c", prepared, seconds=seconds)
