"""The location of the control plane's programs."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
ASSETS = "KUBEBUILDER_ASSETS"  # the variable of envtest
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_MODULE = Path("tests", "controlplane", "kubernetes", "go.mod")
_REQUIRED = re.compile(r"^\s*(?:require\s+)?k8s\.io/kubernetes\s+(v\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folder of the four programs."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / name


def find(environ: Mapping[str, str] = os.environ, *, root: Path = ROOT) -> Binaries:
    """Return the programs in the folder of the environment, else those built in the checkout.

    Raises:
        ConfigError: some are missing; the message says how to get them.
    """
    assets = environ.get(ASSETS, "")
    if assets:
        return _complete(Path(assets), f"{ASSETS} is set to a folder without")
    folder = root / ".controlplane" / pinned_version(root)
    return _complete(folder, "run `make controlplane` first: there is no")


def pinned_version(root: Path = ROOT) -> str:
    """Return the version of Kubernetes that the checkout builds, for example ``v1.36.3``.

    Raises:
        ConfigError: this isn't a checkout.
    """
    path = root / _MODULE
    try:
        found = _REQUIRED.search(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the control plane is built in the checkout; set {ASSETS} elsewhere"
        ) from error
    if found is None:
        raise ConfigError(f"{path} doesn't require k8s.io/kubernetes")
    return found[1]


def _complete(folder: Path, complaint: str) -> Binaries:
    binaries = Binaries(folder)
    missing = [name for name in NAMES if not os.access(binaries.path(name), os.X_OK)]
    if missing:
        raise ConfigError(f"{complaint} {', '.join(missing)} ({folder})")
    return binaries
