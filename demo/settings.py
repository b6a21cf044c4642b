"""What the demo can be told, and what it tells the components."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from common.errors import ConfigError
from common.flags import boolean, duration, flag
from controlplane.files import Files

SANDBOX = "sandbox"
CONTROL_PLANE = "controlplane"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Five workloads get right-sized in a cluster on loopback, within three minutes."""

    keep: bool = flag(
        "--keep",
        default=False,
        parse=boolean,
        help="When the story has ended, keep everything running until Ctrl-C.",
    )
    output: str = flag(
        "--output",
        short="-o",
        default="table",
        parse=str,
        help="How to print the summary: table or json. With json, progress goes to standard error.",
    )
    timeout: timedelta = flag(
        "--timeout",
        default=timedelta(seconds=170),
        parse=duration,
        help="When to give up.",
    )
    folder: Path = flag(
        "--folder",
        default=Path(".demo"),
        parse=Path,
        help="Where kubeconfig, certificates and logs go; it is emptied first.",
    )
    root: Path = flag(
        "--root",
        default=Path(),
        parse=Path,
        help="The checkout, whose deploy/ and examples/ are applied.",
    )
    cluster: str = flag(
        "--cluster",
        default=SANDBOX,
        parse=str,
        help="What it runs on: sandbox, or controlplane for a real API server "
        "(see make controlplane).",
    )
    kubernetes_version: str = flag(
        "--kubernetes-version",
        default="1.36",
        parse=str,
        help="The Kubernetes version that the sandbox behaves like: 1.33 to 1.36.",
    )

    def __post_init__(self) -> None:
        if self.cluster not in (SANDBOX, CONTROL_PLANE):
            raise ConfigError(f"--cluster: {self.cluster!r} is not {SANDBOX} or {CONTROL_PLANE}")
        if self.output not in ("table", "json"):
            raise ConfigError(f"--output: {self.output!r} is not table or json")
        for needed in ("deploy/crd", "examples"):
            if not (self.root / needed).is_dir():
                raise ConfigError(
                    f"--root: {self.root.resolve()} has no {needed}; run this from the checkout"
                )

    @property
    def plane(self) -> Files:
        """What a real control plane keeps."""
        return Files.within(self.folder / CONTROL_PLANE)


def cluster_command(settings: Settings, *, kubeconfig: Path) -> list[str]:
    """The module that runs the cluster, and its arguments."""
    common = [settings.cluster, "demo.yaml", f"--kubeconfig={kubeconfig}"]
    if settings.cluster == SANDBOX:
        return [*common, f"--kubernetes-version={settings.kubernetes_version}"]
    return [*common, f"--folder={settings.plane.folder}"]


# A VPA's defaults take hours on purpose. These are documented flags, nothing else: the code
# does not know that it runs in a demo.
RECOMMENDER = (
    "--debug-endpoints",
    "--recommender-interval=3s",
    "--confidence-interval-cpu=1m",
    "--confidence-interval-memory=1m",
    "--cpu-histogram-decay-half-life=10m",
    "--memory-histogram-decay-half-life=10m",
)
UPDATER = (
    "--debug-endpoints",
    "--updater-interval=3s",
    "--in-recommendation-bounds-eviction-lifetime-threshold=1m",
    "--feature-gates=InPlace=true",
)
ADMISSION = (
    "--debug-endpoints",
    "--status-lease-update-interval=2s",
    "--feature-gates=InPlace=true",
)
