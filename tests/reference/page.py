"""The commands of docs/migration.md, run as they are there."""

from pathlib import Path

from e2e.kubectl import run_command
from page_commands import REFERENCE, blocks
from reference.programs import MANIFESTS, OUR_REGISTRY, ROOT

(PAGE,) = REFERENCE


def block(start: str) -> str:
    """Return the one block of commands of the page that begins with ``start``.

    Raises:
        ValueError: there is no block like this, or more than one.
    """
    (found,) = (one.text for one in blocks(PAGE) if one.text.startswith(start))
    return found


class Operator:
    """A shell in a checkout, with the reference's manifests beside it."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = kubeconfig
        self.folder = folder
        (folder / "deploy").symlink_to(ROOT / "deploy")
        for manifest in MANIFESTS.glob("*.yaml"):
            (folder / manifest.name).symlink_to(manifest)

    async def shell(self, commands: str, *, seconds: float = 150) -> str:
        """Run commands, and return what they print; fail with that if one of them fails."""
        prepared = f"export KUBECONFIG={self.kubeconfig}; cd {self.folder}\n{commands}"
        code, printed = await run_command(
            *("bash", "-euo", "pipefail", "-c", prepared), seconds=seconds
        )
        assert code == 0, f"{commands}\nended with {code}:\n{printed}"
        return printed

    async def follow(self, start: str, *, before: str = "", **words: str) -> str:
        """Run ``before`` and the block of the page that begins with ``start``.

        ``words`` replaces placeholders.
        """
        commands = before + block(start)
        for placeholder, word in {"REGISTRY": OUR_REGISTRY, **words}.items():
            commands = commands.replace(placeholder, word)
        return await self.shell(commands)
