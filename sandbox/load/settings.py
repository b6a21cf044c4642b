"""What an operator can tell the load mode."""

from dataclasses import dataclass
from datetime import timedelta

from common.errors import ConfigError
from common.flags import boolean, duration, flag
from sandbox.load.layout import Layout
from sandbox.settings import ClusterSettings


@dataclass(frozen=True, kw_only=True)
class Settings(ClusterSettings):
    """An API server for benchmarks: answers from prepared bytes, no controllers, no kubelets."""

    vpas: int = flag(
        "--vpas",
        default=1000,
        parse=int,
        help="How many VPAs there are; each targets a Deployment of its own.",
    )
    pods_per_vpa: int = flag(
        "--pods-per-vpa",
        default=10,
        parse=int,
        help="How many running pods each of these Deployments has.",
    )
    group_size: int = flag(
        "--group-size",
        default=0,
        parse=int,
        help="How many pods a ReplicaSet has; 0: one ReplicaSet has all of a Deployment's pods.",
    )
    update_mode: str = flag(
        "--update-mode",
        default="Recreate",
        parse=str,
        help="The update mode of all VPAs.",
    )
    right_sized: bool = flag(
        "--right-sized",
        default=False,
        parse=boolean,
        help="Whether the pods ask for their targets from the start, so that nothing needs doing.",
    )
    react: bool = flag(
        "--react",
        default=True,
        parse=boolean,
        help="Whether evicted pods are replaced, and resized and patched objects change; "
        "otherwise writes are answered and counted, and nothing comes of them.",
    )
    answer_delay: timedelta = flag(
        "--answer-delay",
        default=timedelta(),
        parse=duration,
        help="How long the answer to a write takes, Leases apart.",
    )
    checkpoints: bool = flag(
        "--checkpoints",
        default=False,
        parse=boolean,
        help="Whether every container has a checkpoint with a long history from the start.",
    )
    tls: bool = flag(
        "--tls",
        default=True,
        parse=boolean,
        help="Whether connections are encrypted, as those to a real API server.",
    )
    compress: bool = flag(
        "--compress",
        default=True,
        parse=boolean,
        help="Compress answers of 128 KiB and more for clients that accept it, as real servers do.",
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
        """Who there is, by number and by name."""
        return Layout(
            vpas=self.vpas,
            pods_per_vpa=self.pods_per_vpa,
            group_size=self.group_size or self.pods_per_vpa,
        )
