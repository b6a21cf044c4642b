"""The recommender's flags."""

from dataclasses import dataclass
from datetime import timedelta

from common.errors import ConfigError
from common.flags import boolean, flag, number, positive_duration, whole
from common.quantity import ZERO, Quantity, parse_unsigned
from common.resources import CPU, MEMORY
from common.runtime.settings import CommonSettings, LeaderElectionSettings, debug_flag
from recommender.estimate.estimation import EstimationSettings, Percentiles
from recommender.estimate.post_processing import PostProcessingSettings
from recommender.history_settings import HistorySettings
from recommender.model.aggregates import AggregationRules, HalfLives

_DAY = timedelta(hours=24)
_MIN_CHECKPOINTS = 10


@dataclass(frozen=True, kw_only=True)
class RecommenderSettings(CommonSettings, LeaderElectionSettings, HistorySettings):
    """The recommender: watches what containers use and writes what they should request.

    Names and defaults are upstream's: pkg/recommender/config/config.go; recommender.md 14.
    """

    recommender_name: str = flag(
        "--recommender-name",
        default="default",
        parse=str,
        help="Which VPAs are ours: those that name this recommender, or none if it is default.",
    )
    interval: timedelta = flag(
        "--recommender-interval",
        default=timedelta(minutes=1),
        parse=positive_duration,
        help="How often to read usage and write recommendations.",
    )
    address: str = flag(
        "--address",
        default=":8942",
        parse=str,
        help="Where to serve /metrics, /health-check and /readyz.",
    )
    debug_endpoints: bool = debug_flag(
        "GET /debug/vpa/{namespace}/{name} on --address: how a recommendation comes about."
    )
    memory_saver: bool = flag(
        "--memory-saver",
        default=False,
        parse=boolean,
        help="Follow only pods that a VPA matches.",
    )
    update_worker_count: int = flag(
        "--update-worker-count",
        default=10,
        parse=whole(least=1),
        help="How many status patches, or checkpoints, are written at a time.",
    )
    checkpoints_gc_interval: timedelta = flag(
        "--checkpoints-gc-interval",
        default=timedelta(minutes=10),
        parse=positive_duration,
        help="How often checkpoints of VPAs that are gone are deleted.",
    )
    checkpoints_timeout: timedelta = flag(
        "--checkpoints-timeout",
        default=timedelta(minutes=1),
        parse=positive_duration,
        help="How long writing checkpoints may take in one cycle.",
    )
    min_checkpoints: int = flag(
        "--min-checkpoints",
        default=_MIN_CHECKPOINTS,
        parse=whole(),
        help="Without effect: one checkpoint per worker is written at least.",
    )
    margin_fraction: float = flag(
        "--recommendation-margin-fraction",
        default=0.15,
        parse=number(least=0),
        help="Safety margin: 0.15 adds fifteen percent.",
    )
    pod_min_cpu: float = flag(
        "--pod-recommendation-min-cpu-millicores",
        default=25.0,
        parse=number(least=0),
        help="Least CPU of a pod, in millicores, shared by its containers.",
    )
    pod_min_memory: float = flag(
        "--pod-recommendation-min-memory-mb",
        default=250.0,
        parse=number(least=0),
        help="Least memory of a pod, in MiB, shared by its containers.",
    )
    target_cpu_percentile: float = flag(
        "--target-cpu-percentile",
        default=0.9,
        parse=number(least=0, most=1),
        help="Part of the CPU samples that the target covers.",
    )
    lower_cpu_percentile: float = flag(
        "--recommendation-lower-bound-cpu-percentile",
        default=0.5,
        parse=number(least=0, most=1),
        help="Part of the CPU samples that the lower bound covers.",
    )
    upper_cpu_percentile: float = flag(
        "--recommendation-upper-bound-cpu-percentile",
        default=0.95,
        parse=number(least=0, most=1),
        help="Part of the CPU samples that the upper bound covers.",
    )
    target_memory_percentile: float = flag(
        "--target-memory-percentile",
        default=0.9,
        parse=number(least=0, most=1),
        help="Part of the memory peaks that the target covers.",
    )
    lower_memory_percentile: float = flag(
        "--recommendation-lower-bound-memory-percentile",
        default=0.5,
        parse=number(least=0, most=1),
        help="Part of the memory peaks that the lower bound covers.",
    )
    upper_memory_percentile: float = flag(
        "--recommendation-upper-bound-memory-percentile",
        default=0.95,
        parse=number(least=0, most=1),
        help="Part of the memory peaks that the upper bound covers.",
    )
    confidence_interval_cpu: timedelta = flag(
        "--confidence-interval-cpu",
        default=_DAY,
        parse=positive_duration,
        help="History after which bounds of CPU are close to the target.",
    )
    confidence_interval_memory: timedelta = flag(
        "--confidence-interval-memory",
        default=_DAY,
        parse=positive_duration,
        help="History after which bounds of memory are close to the target.",
    )
    round_cpu_millicores: int = flag(
        "--round-cpu-millicores",
        default=1,
        parse=whole(),
        help="CPU is rounded up to a multiple of this.",
    )
    round_memory_bytes: int = flag(
        "--round-memory-bytes",
        default=1,
        parse=whole(),
        help="Memory is rounded up to a multiple of this.",
    )
    humanize_memory: bool = flag(
        "--humanize-memory",
        default=False,
        parse=boolean,
        help="Deprecated: write memory with two decimals in the largest unit.",
    )
    publish_without_samples: bool = flag(
        "--publish-without-samples",
        default=False,
        parse=boolean,
        help="Recommend the pod's minimum for containers without any usage, as the reference does.",
    )
    integer_cpu: bool = flag(
        "--cpu-integer-post-processor-enabled",
        default=False,
        parse=boolean,
        help="Round CPU up to whole cores for containers that an annotation of the VPA names.",
    )
    max_allowed_cpu: Quantity = flag(
        "--container-recommendation-max-allowed-cpu",
        default=ZERO,
        parse=parse_unsigned,
        help="Most CPU of a container whose policy has no maximum; 0 means no limit.",
    )
    max_allowed_memory: Quantity = flag(
        "--container-recommendation-max-allowed-memory",
        default=ZERO,
        parse=parse_unsigned,
        help="Most memory of a container whose policy has no maximum; 0 means no limit.",
    )
    memory_aggregation_interval: timedelta = flag(
        "--memory-aggregation-interval",
        default=_DAY,
        parse=positive_duration,
        help="Length of the windows of which only the memory peak counts.",
    )
    memory_aggregation_interval_count: int = flag(
        "--memory-aggregation-interval-count",
        default=8,
        parse=whole(least=1),
        help="How many of these windows unused history is kept.",
    )
    memory_half_life: timedelta = flag(
        "--memory-histogram-decay-half-life",
        default=_DAY,
        parse=positive_duration,
        help="After which time a memory peak counts half.",
    )
    cpu_half_life: timedelta = flag(
        "--cpu-histogram-decay-half-life",
        default=_DAY,
        parse=positive_duration,
        help="After which time a CPU sample counts half.",
    )
    oom_bump_up_ratio: float = flag(
        "--oom-bump-up-ratio",
        default=1.2,
        parse=number(least=1),
        help="After an OOM kill memory is raised by this factor at least.",
    )
    oom_min_bump_up: float = flag(
        "--oom-min-bump-up-bytes",
        default=104857600.0,
        parse=number(least=0),
        help="After an OOM kill memory is raised by so many bytes at least.",
    )
    leader_elect_resource_name: str = flag(
        "--leader-elect-resource-name",
        default="vpa-recommender-lease",
        parse=str,
        help="Name of the Lease.",
    )

    def __post_init__(self) -> None:
        """Refuse what can't work.

        Raises:
            ConfigError: flags exclude each other, or a value makes no sense.
        """
        CommonSettings.__post_init__(self)
        HistorySettings.__post_init__(self)
        for rounding, unit, cap, most in (
            (
                "--round-cpu-millicores",
                Quantity.from_milli(self.round_cpu_millicores),
                "--container-recommendation-max-allowed-cpu",
                self.max_allowed_cpu,
            ),
            (
                "--round-memory-bytes",
                Quantity.from_value(self.round_memory_bytes),
                "--container-recommendation-max-allowed-memory",
                self.max_allowed_memory,
            ),
        ):
            if ZERO < most < unit:
                raise ConfigError(f"{rounding} rounds up to {unit}, more than {cap}={most}")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Flags that don't do what whoever set them may expect."""
        found = []
        if self.min_checkpoints != _MIN_CHECKPOINTS:
            found.append("--min-checkpoints has no effect")
        if self.use_external_metrics and not any(self.external_metrics.values()):
            found.append("--use-external-metrics without the name of a metric: there is no usage")
        if self.humanize_memory:
            found.append("--humanize-memory is deprecated, use --round-memory-bytes")
        if self.round_cpu_millicores <= 0:
            found.append("--round-cpu-millicores is not positive: CPU is not rounded")
        if self.round_memory_bytes <= 0:
            found.append("--round-memory-bytes is not positive: memory is not rounded")
        return tuple(found)

    @property
    def aggregation(self) -> AggregationRules:
        """How memory is gathered, where a VPA says nothing else."""
        return AggregationRules(
            interval=self.memory_aggregation_interval,
            interval_count=self.memory_aggregation_interval_count,
            oom_bump_up_ratio=self.oom_bump_up_ratio,
            oom_min_bump_up=self.oom_min_bump_up,
        )

    @property
    def half_lives(self) -> HalfLives:
        """How fast samples lose weight."""
        return HalfLives(cpu=self.cpu_half_life, memory=self.memory_half_life)

    @property
    def estimation(self) -> EstimationSettings:
        """The policy of estimation."""
        return EstimationSettings(
            margin=self.margin_fraction,
            pod_min_cpu=self.pod_min_cpu,
            pod_min_memory=self.pod_min_memory,
            cpu=Percentiles(
                target=self.target_cpu_percentile,
                lower=self.lower_cpu_percentile,
                upper=self.upper_cpu_percentile,
            ),
            memory=Percentiles(
                target=self.target_memory_percentile,
                lower=self.lower_memory_percentile,
                upper=self.upper_memory_percentile,
            ),
            cpu_confidence=self.confidence_interval_cpu,
            memory_confidence=self.confidence_interval_memory,
        )

    @property
    def publication(self) -> PostProcessingSettings:
        """How recommendations are written."""
        most = {CPU: self.max_allowed_cpu, MEMORY: self.max_allowed_memory}
        return PostProcessingSettings(
            round_cpu=self.round_cpu_millicores,
            round_memory=self.round_memory_bytes,
            humanize_memory=self.humanize_memory,
            integer_cpu=self.integer_cpu,
            without_samples=self.publish_without_samples,
            max_allowed={name: value for name, value in most.items() if not value.is_zero},
        )
