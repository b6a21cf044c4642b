"""The overlays that pages show as kustomization.yaml: kubectl renders each of them."""

import subprocess
from pathlib import Path

import pytest

from kubectl_program import KUBECTL, needs_kubectl
from page_commands import ROOT, overlays, pages

pytestmark = needs_kubectl()
OVERLAYS = [
    pytest.param(text, id=f"{page}:{number}")
    for page in pages()
    for number, text in enumerate(overlays(page), 1)
]


def test_pages_show_overlays() -> None:
    assert len(OVERLAYS) > 3


@pytest.mark.parametrize("text", OVERLAYS)
def test_an_overlay_renders(text: str, tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "kustomization.yaml").write_text(text)
    done = subprocess.run(
        (KUBECTL, "kustomize", tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "kind: " in done.stdout
