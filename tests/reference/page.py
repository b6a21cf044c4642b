"""The commands of docs/migration.md, run as they are there."""

from pathlib import Path

from e2e.shell import run_script
from page_commands import REFERENCE, find_block
from reference.programs import MANIFESTS, OUR_REGISTRY, ROOT

(PAGE,) = REFERENCE


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
        code, printed = await run_script(
            commands, kubeconfig=self.kubeconfig, folder=self.folder, seconds=seconds
        )
        assert code == 0, f"{commands}\nended with {code}:\n{printed}"
        return printed

    async def follow(self, start: str, **words: str) -> str:
        """Run the block of the page that begins with ``start``; ``words`` replaces placeholders."""
        commands = find_block(PAGE, start)
        for placeholder, word in {"REGISTRY": OUR_REGISTRY, **words}.items():
            commands = commands.replace(placeholder, word)
        return await self.shell(commands)
