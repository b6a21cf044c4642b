"""Stock kubectl, as an operator types it."""

import asyncio
import os
from pathlib import Path


class KubectlError(AssertionError):
    """kubectl ended with another code than 0; the message is what it printed."""


async def run(*words: str, within: float = 60) -> tuple[int, str]:
    """Run a command; its exit code, and all that it printed.

    It doesn't outlive this call: what takes longer than ``within`` seconds is killed.
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
        async with asyncio.timeout(within):
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

    async def __call__(self, *words: str, namespace: str = "", within: float = 60) -> str:
        """What it printed.

        Raises:
            KubectlError: it ended with another code than 0.
        """
        code, printed = await self.try_(*words, namespace=namespace, within=within)
        if code:
            raise KubectlError(f"kubectl {' '.join(words)} ended with {code}:\n{printed}")
        return printed

    async def try_(self, *words: str, namespace: str = "", within: float = 60) -> tuple[int, str]:
        """The exit code, and what it printed."""
        scope = [f"--namespace={namespace}"] if namespace else []
        return await run(
            "kubectl", f"--kubeconfig={self.kubeconfig}", *scope, *words, within=within
        )
