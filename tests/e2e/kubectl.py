"""The kubectl program."""

import asyncio
import os
from pathlib import Path


class KubectlError(AssertionError):
    """kubectl failed; the message contains its output."""


async def run_command(*words: str, seconds: float = 60) -> tuple[int, str]:
    """Run a command, and return its exit code and its output, stderr included.

    Raises:
        TimeoutError: the command took longer than ``seconds``, and was killed.
    """
    environ = {key: value for key, value in os.environ.items() if key != "NAMESPACE"}
    process = await asyncio.create_subprocess_exec(
        *words,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, printed.decode()


class Kubectl:
    """kubectl with one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def __call__(self, *words: str, namespace: str = "", seconds: float = 60) -> str:
        """Return the output of a successful command.

        Raises:
            KubectlError: the exit code isn't 0.
        """
        code, printed = await self.run(*words, namespace=namespace, seconds=seconds)
        if code:
            raise KubectlError(f"kubectl {' '.join(words)} ended with {code}:\n{printed}")
        return printed

    async def run(self, *words: str, namespace: str = "", seconds: float = 60) -> tuple[int, str]:
        """Return the exit code and the output of a command."""
        scope = [f"--namespace={namespace}"] if namespace else []
        return await run_command(
            "kubectl", f"--kubeconfig={self.kubeconfig}", *scope, *words, seconds=seconds
        )
