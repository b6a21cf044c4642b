"""The flags of the recommender."""

from dataclasses import dataclass
from datetime import timedelta

from common.errors import ConfigError
from common.flags import boolean, flag, number, one_of, positive_duration, whole
from common.quantity import ZERO, Quantity
from common.resources import CPU, MEMORY
from common.runtime.settings import (
    OPS,
    CommonSettings,
    LeaderElectionSettings,
    address_flag,
    debug_flag,
    lease_name_flag,
)
from recommender.estimate.estimation import EstimationSettings, Percentiles
from recommender.estimate.post_processing import PostProcessingSettings
from recommender.model.aggregates import AggregationRules, HalfLives
from recommender.nodes.cap_mode import CAP_ANNOTATION, CapMode
from recommender.nodes.shape_flag import EXAMPLE, ShapeFlag, parse_shape
from recommender.recommendation_flags import ROUNDING, RecommendationFlags
from recommender.sources.usage_source_settings import UsageSourceSettings

_DAY = timedelta(hours=24)
_DEFAULT = "default"  # the recommender of VPAs that name none
_MIN_CHECKPOINTS = 10


@dataclass(frozen=True, kw_only=True)
class RecommenderSettings(
    RecommendationFlags, CommonSettings, LeaderElectionSettings, UsageSourceSettings
):
    """Recommend requests for containers from their usage, and write them to the status of VPAs.

    Names and defaults are upstream's: pkg/recommender/config/config.go; recommender.md 14.
    """

    recommender_name: str = flag(
        "--recommender-name",
        default=_DEFAULT,
        parse=str,
        group="General",
        metavar="NAME",
        help="Handle VPAs that name this recommender. The name default also handles VPAs that name"
        " none.",
    )
    interval: timedelta = flag(
        "--recommender-interval",
        default=timedelta(minutes=1),
        parse=positive_duration,
        group="General",
        help="Read usage and write recommendations at this interval.",
    )
    memory_saver: bool = flag(
        "--memory-saver",
        default=False,
        parse=boolean,
        group="General",
        help="Keep only pods that a VPA matches, to save memory.",
    )
    update_worker_count: int = flag(
        "--update-worker-count",
        default=10,
        parse=whole(least=1),
        group="General",
        metavar="COUNT",
        help="Write up to this number of VPA statuses, and as many checkpoints, at the same time.",
    )
    namespace_vpas: bool = flag(
        "--namespace-vpas",
        default=False,
        parse=boolean,
        group="General",
        help="Create VPAs for the workloads of namespaces with the label "
        "vpa.autoscaling/enable=true, by the annotations of the namespace. Needs more permissions: "
        "see deploy/components/namespace-vpas.",
    )
    cap_to_nodes: CapMode = flag(
        "--cap-to-nodes",
        default=CapMode.AUTO,
        parse=one_of(CapMode),
        group=ROUNDING,
        metavar="MODE",
        help="Lower the targets of a pod so that it fits a node that it may run on. auto: unless an"
        " autoscaler could make a larger node that isn't known. always, never. The annotation "
        f"{CAP_ANNOTATION} of a VPA overrides it.",
    )
    node_shapes: tuple[ShapeFlag, ...] = flag(
        "--node-shape",
        default=(),
        parse=parse_shape,
        group=ROUNDING,
        metavar="SHAPE",
        is_repeated=True,
        help="Count nodes of this shape as known, because an autoscaler can make them: "
        f"{EXAMPLE}. CPU and memory are what pods can request. The flag may be repeated, and "
        "has to list the largest nodes that the cluster autoscaler can make.",
    )
    cpu_half_life: timedelta = flag(
        "--cpu-histogram-decay-half-life",
        default=_DAY,
        parse=positive_duration,
        group="Histograms and memory windows",
        help="Halve the weight of a CPU sample after this time.",
    )
    memory_half_life: timedelta = flag(
        "--memory-histogram-decay-half-life",
        default=_DAY,
        parse=positive_duration,
        group="Histograms and memory windows",
        help="Halve the weight of a memory peak after this time.",
    )
    memory_aggregation_interval: timedelta = flag(
        "--memory-aggregation-interval",
        default=_DAY,
        parse=positive_duration,
        group="Histograms and memory windows",
        help="Count only the highest memory usage of each window of this length.",
    )
    memory_aggregation_interval_count: int = flag(
        "--memory-aggregation-interval-count",
        default=8,
        parse=whole(least=1),
        group="Histograms and memory windows",
        metavar="COUNT",
        help="Keep the history of a container without new samples for this number of windows.",
    )
    oom_bump_up_ratio: float = flag(
        "--oom-bump-up-ratio",
        default=1.2,
        parse=number(least=1),
        group="OOM kills",
        metavar="RATIO",
        help="Multiply memory by at least this ratio after an OOM kill.",
    )
    oom_min_bump_up: float = flag(
        "--oom-min-bump-up-bytes",
        default=104857600.0,
        parse=number(least=0),
        group="OOM kills",
        metavar="BYTES",
        help="Raise memory by at least this much after an OOM kill, in bytes.",
    )
    cap_to_quotas: bool = flag(
        "--cap-to-quotas",
        default=True,
        parse=boolean,
        group=ROUNDING,
        help="Lower targets so that the pods of the next rollout fit the ResourceQuotas of the "
        "namespace, but not below minAllowed. The condition CappedByQuota states the numbers. "
        "Without the permission to read ResourceQuotas it has no effect.",
    )
    checkpoints_gc_interval: timedelta = flag(
        "--checkpoints-gc-interval",
        default=timedelta(minutes=10),
        parse=positive_duration,
        group="Checkpoints",
        help="Delete checkpoints of deleted VPAs at this interval.",
    )
    checkpoints_timeout: timedelta = flag(
        "--checkpoints-timeout",
        default=timedelta(minutes=1),
        parse=positive_duration,
        group="Checkpoints",
        help="Stop writing checkpoints after this time in each cycle; the next cycle continues.",
    )
    min_checkpoints: int = flag(
        "--min-checkpoints",
        default=_MIN_CHECKPOINTS,
        parse=whole(),
        group="Checkpoints",
        metavar="COUNT",
        help="No effect: at least one checkpoint per worker is written.",
    )
    address: str = address_flag(":8942")
    container_metrics: bool = flag(
        "--container-metrics",
        default=False,
        parse=boolean,
        group=OPS,
        help="Expose request, target and bounds of each container of each VPA as metrics: ten "
        "series for each container.",
    )
    debug_endpoints: bool = debug_flag(
        "GET /debug/vpa/{namespace}/{name} on --address, which explains a recommendation."
    )
    leader_elect_resource_name: str = lease_name_flag("vpa-recommender-lease")

    def __post_init__(self) -> None:
        """Validate the flags.

        Raises:
            ConfigError: flags exclude each other, or a value is invalid.
        """
        CommonSettings.__post_init__(self)
        UsageSourceSettings.__post_init__(self)
        if self.namespace_vpas and self.recommender_name != _DEFAULT:
            raise ConfigError(
                f"--namespace-vpas needs --recommender-name={_DEFAULT}, which handles "
                "the VPAs that it creates"
            )
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
        """Return a warning for each part of the command line without the expected effect."""
        found = [*super().warnings]
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
        """Return the default rules of memory aggregation, which a VPA may override."""
        return AggregationRules(
            interval=self.memory_aggregation_interval,
            interval_count=self.memory_aggregation_interval_count,
            oom_bump_up_ratio=self.oom_bump_up_ratio,
            oom_min_bump_up=self.oom_min_bump_up,
        )

    @property
    def half_lives(self) -> HalfLives:
        """Return the half-lives of the histograms."""
        return HalfLives(cpu=self.cpu_half_life, memory=self.memory_half_life)

    @property
    def estimation(self) -> EstimationSettings:
        """Return the settings of estimation."""
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
        """Return the settings of post-processing."""
        most = {CPU: self.max_allowed_cpu, MEMORY: self.max_allowed_memory}
        return PostProcessingSettings(
            round_cpu=self.round_cpu_millicores,
            round_memory=self.round_memory_bytes,
            humanize_memory=self.humanize_memory,
            integer_cpu=self.integer_cpu,
            without_samples=self.publish_without_samples,
            max_allowed={name: value for name, value in most.items() if not value.is_zero},
        )
