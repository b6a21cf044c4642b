"""The krew manifest of ``kubectl vpa``, and the packages of its archive."""

import sys
from pathlib import Path

import grimp
import pytest

from release import krew
from release.checks import Release
from release.krew import NEEDED, archive_name, distributions, manifest

RELEASE = Release(root=Path("/r"), version="1.2.3", programs=())
DIGEST = "0" * 64


def test_the_manifest_has_a_platform_for_each_archive() -> None:
    names = ("kubectl-vpa_1.2.3_linux_amd64.tar.gz", "kubectl-vpa_1.2.3_darwin_arm64.tar.gz")
    made = manifest(RELEASE, dict.fromkeys(names, DIGEST), "https://releases.example.com/1.2.3/")
    assert made["kind"] == "Plugin"
    assert made["metadata"] == {"name": "vpa"}
    assert made["spec"]["version"] == "v1.2.3"
    assert made["spec"]["platforms"] == [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": "amd64"}},
            "uri": f"https://releases.example.com/1.2.3/{names[0]}",
            "sha256": DIGEST,
            "bin": "kubectl-vpa",
        },
        {
            "selector": {"matchLabels": {"os": "darwin", "arch": "arm64"}},
            "uri": f"https://releases.example.com/1.2.3/{names[1]}",
            "sha256": DIGEST,
            "bin": "kubectl-vpa",
        },
    ]


@pytest.mark.parametrize(
    ("machine", "want"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64")]
)
def test_an_archive_is_named_by_its_platform(
    machine: str, want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert archive_name(RELEASE) == f"kubectl-vpa_1.2.3_linux_{want}.tar.gz"


def test_the_archive_has_what_the_program_imports() -> None:
    """And nothing of what only the components import."""
    packages = ("common", "recommender", "updater", "kubectl_vpa")
    graph = grimp.build_graph(*packages, include_external_packages=True, cache_dir=None)
    commands = graph.find_children("kubectl_vpa.commands")  # the program imports one of them
    found, pending = set[str](), {"kubectl_vpa.program", *commands}
    while pending:
        name = pending.pop()
        found.add(name)
        parent = {name.rpartition(".")[0]} - {""}
        pending |= (graph.find_modules_directly_imported_by(name) | parent) - found
    imported = {name for name in found if name.partition(".")[0] not in packages}
    named = {each.lower().replace("-", "_") for each in NEEDED} - {"pyyaml"} | {"yaml", "yarl"}
    third_party = imported - sys.stdlib_module_names
    assert third_party <= named
    assert {"rich", "msgspec", "aiohttp", "numpy"} <= third_party


def test_no_manifest_is_written_without_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_bytes((krew.ROOT / "pyproject.toml").read_bytes())
    monkeypatch.setattr(krew, "ROOT", tmp_path)
    assert krew.main(["--url=https://releases.example.com"]) == 1
    assert (
        "failed: there is no environment with kubectl vpa: run `make release-check` first"
        in capsys.readouterr().out
    )
    assert not (tmp_path / "dist").exists()


def test_dependencies_of_dependencies_are_included() -> None:
    folder = Path(grimp.__file__).parents[1]
    found = distributions(folder)
    assert {"pyvpa", "rich", "markdown-it-py", "yarl", "cffi"} <= found.keys()
    assert not {"fastapi", "uvicorn", "pytest"} & found.keys()
