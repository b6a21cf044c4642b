"""The flags of the demo, and those that it passes to the components."""

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
    """Show how five workloads get the right size in a cluster on loopback, within three minutes."""

    keep: bool = flag(
        "--keep",
        default=False,
        parse=boolean,
        group="Demo",
        help="Keep everything running after the demo until Ctrl-C.",
    )
    output: str = flag(
        "--output",
        short="-o",
        default="table",
        parse=str,
        group="Demo",
        metavar="FORMAT",
        help="Print the summary in this format: table or json. With json, progress goes to "
        "standard error.",
    )
    cluster: str = flag(
        "--cluster",
        default=SANDBOX,
        parse=str,
        group="Demo",
        metavar="CLUSTER",
        help="Run on this cluster: sandbox, or controlplane for a real API server (see make "
        "controlplane).",
    )
    kubernetes_version: str = flag(
        "--kubernetes-version",
        default="1.36",
        parse=str,
        group="Demo",
        metavar="VERSION",
        help="Behave like this Kubernetes version in the sandbox, from 1.33 to 1.36.",
    )
    timeout: timedelta = flag(
        "--timeout",
        default=timedelta(seconds=170),
        parse=duration,
        group="Demo",
        help="Stop with an error after this time.",
    )
    folder: Path = flag(
        "--folder",
        default=Path(".demo"),
        parse=Path,
        group="Demo",
        metavar="FOLDER",
        help="Empty this folder, and write kubeconfig, certificates and logs to it.",
    )
    root: Path = flag(
        "--root",
        default=Path(),
        parse=Path,
        group="Demo",
        metavar="FOLDER",
        help="Path of the checkout, whose deploy/ and examples/ are applied.",
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
        """Return the files of a real control plane."""
        return Files.within(self.folder / CONTROL_PLANE)


def cluster_command(settings: Settings, *, kubeconfig: Path) -> list[str]:
    """Return the module that runs the cluster, and its arguments."""
    common = [settings.cluster, "demo.yaml", f"--kubeconfig={kubeconfig}"]
    if settings.cluster == SANDBOX:
        return [*common, f"--kubernetes-version={settings.kubernetes_version}"]
    return [*common, f"--folder={settings.plane.folder}"]


# With its default settings a VPA takes hours to act. The demo shortens this only with documented
# flags; the components have no special code for it.
RECOMMENDER = (
    "--debug-endpoints",
    "--container-metrics",
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
