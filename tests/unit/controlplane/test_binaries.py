"""Lookup of the binaries, and the errors if they are missing."""

from pathlib import Path

import pytest

from common.errors import ConfigError
from controlplane.binaries import ASSETS, NAMES, find, pinned_version

GO_MOD = """module controlplane/kubernetes

// k8s.io/kubernetes requires its staging modules as v0.0.0
require (
	k8s.io/kube-openapi v0.0.0-2026 // indirect
	k8s.io/kubernetes v1.36.3 // indirect
)
"""


def checkout(root: Path, go_mod: str = GO_MOD) -> Path:
    module = root / "tests" / "controlplane" / "kubernetes"
    module.mkdir(parents=True)
    (module / "go.mod").write_text(go_mod)
    return root


def programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_binaries_of_the_checkout_have_the_version_of_its_module(
    tmp_path: Path,
) -> None:
    root = checkout(tmp_path)
    folder = programs(root / ".controlplane" / "v1.36.3", *NAMES)
    assert find({}, root=root).folder == folder
    assert find({}, root=root).path("etcd") == folder / "etcd"


def test_the_environment_variable_takes_precedence(tmp_path: Path) -> None:
    root = checkout(tmp_path / "checkout")
    programs(root / ".controlplane" / "v1.36.3", *NAMES)
    assets = programs(tmp_path / "assets", *NAMES)
    assert find({ASSETS: str(assets)}, root=root).folder == assets


def test_the_error_for_unbuilt_binaries_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run `make controlplane` first: there is no etcd, kube-"):
        find({}, root=checkout(tmp_path))


def test_the_error_names_the_missing_binaries(tmp_path: Path) -> None:
    assets = programs(tmp_path, *NAMES[:3])
    with pytest.raises(ConfigError, match=f"{ASSETS} is set to a folder without kube-scheduler"):
        find({ASSETS: str(assets)})


def test_a_file_that_is_not_executable_is_missing(tmp_path: Path) -> None:
    assets = programs(tmp_path, *NAMES)
    (assets / "etcd").chmod(0o644)
    with pytest.raises(ConfigError, match="without etcd"):
        find({ASSETS: str(assets)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(GO_MOD, "v1.36.3", id="in a block"),
        pytest.param("require k8s.io/kubernetes v1.35.0\n", "v1.35.0", id="on a separate line"),
    ],
)
def test_the_version_is_read_from_the_module(tmp_path: Path, text: str, expected: str) -> None:
    assert pinned_version(checkout(tmp_path, text)) == expected


def test_a_module_without_kubernetes_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="doesn't require"):
        pinned_version(checkout(tmp_path, "module x\n"))


def test_outside_a_checkout_the_error_names_the_environment_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=ASSETS):
        find({}, root=tmp_path)
