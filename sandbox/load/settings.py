"""The flags of the load mode."""

from dataclasses import dataclass
from datetime import timedelta

from common.errors import ConfigError
from common.flags import boolean, duration, flag
from sandbox.load.layout import Layout
from sandbox.settings import ClusterSettings


@dataclass(frozen=True, kw_only=True)
class Settings(ClusterSettings):
    """Serve an API for benchmarks from prepared bytes, without controllers and kubelets."""

    vpas: int = flag(
        "--vpas",
        default=1000,
        parse=int,
        group="Load",
        metavar="COUNT",
        help="Create this number of VPAs, each with a Deployment of its own.",
    )
    pods_per_vpa: int = flag(
        "--pods-per-vpa",
        default=10,
        parse=int,
        group="Load",
        metavar="COUNT",
        help="Create this number of running pods for each Deployment.",
    )
    group_size: int = flag(
        "--group-size",
        default=0,
        parse=int,
        group="Load",
        metavar="COUNT",
        help="Create ReplicaSets of this number of pods. 0: one ReplicaSet for each Deployment.",
    )
    update_mode: str = flag(
        "--update-mode",
        default="Recreate",
        parse=str,
        group="Load",
        metavar="MODE",
        help="Set the update mode of all VPAs.",
    )
    right_sized: bool = flag(
        "--right-sized",
        default=False,
        parse=boolean,
        group="Load",
        help="Create pods that request their targets, so that no update is due.",
    )
    checkpoints: bool = flag(
        "--checkpoints",
        default=False,
        parse=boolean,
        group="Load",
        help="Create a checkpoint with a long history for every container.",
    )
    answer_delay: timedelta = flag(
        "--answer-delay",
        default=timedelta(),
        parse=duration,
        group="API server",
        help="Delay the answer to each write, except writes to Leases.",
    )
    tls: bool = flag(
        "--tls",
        default=True,
        parse=boolean,
        group="API server",
        help="Encrypt connections with TLS.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value, least in (
            ("--vpas", self.vpas, 1),
            ("--pods-per-vpa", self.pods_per_vpa, 1),
            ("--group-size", self.group_size, 0),
        ):
            if value < least:
                raise ConfigError(f"{name} must be {least} or more")
        if self.group_size and self.pods_per_vpa % self.group_size:
            raise ConfigError("--pods-per-vpa must be a multiple of --group-size")
        if self.answer_delay < timedelta():
            raise ConfigError("--answer-delay must not be negative")

    @property
    def layout(self) -> Layout:
        """The numbers and names of objects."""
        return Layout(
            vpas=self.vpas,
            pods_per_vpa=self.pods_per_vpa,
            group_size=self.group_size or self.pods_per_vpa,
        )
