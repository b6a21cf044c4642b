"""The recommender's flags that decide the numbers that it computes from given usage.

They are apart from the other flags, because the command line simulates other values of them. This
module imports nothing that takes time.
"""

from dataclasses import dataclass
from datetime import timedelta

from common.flags import boolean, flag, number, positive_duration, whole
from common.quantity import ZERO, Quantity, parse_unsigned

RECOMMENDATIONS = "Recommendations"
ROUNDING = "Rounding and limits"

_DAY = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True)
class RecommendationFlags:
    """The flags of estimation and post-processing; names and defaults are upstream's."""

    margin_fraction: float = flag(
        "--recommendation-margin-fraction",
        default=0.15,
        parse=number(least=0),
        group=RECOMMENDATIONS,
        metavar="FRACTION",
        help="Add this safety margin to each estimate: 0.15 adds 15 percent.",
    )
    pod_min_cpu: float = flag(
        "--pod-recommendation-min-cpu-millicores",
        default=25.0,
        parse=number(least=0),
        group=RECOMMENDATIONS,
        metavar="MILLICORES",
        help="Recommend at least this much CPU for a pod, shared equally by its containers, in "
        "millicores.",
    )
    pod_min_memory: float = flag(
        "--pod-recommendation-min-memory-mb",
        default=250.0,
        parse=number(least=0),
        group=RECOMMENDATIONS,
        metavar="MEBIBYTES",
        help="Recommend at least this much memory for a pod, shared equally by its containers, in "
        "MiB.",
    )
    target_cpu_percentile: float = flag(
        "--target-cpu-percentile",
        default=0.9,
        parse=number(least=0, most=1),
        group=RECOMMENDATIONS,
        metavar="FRACTION",
        help="Set the target to this percentile of the CPU samples, as a fraction from 0 to 1.",
    )
    lower_cpu_percentile: float = flag(
        "--recommendation-lower-bound-cpu-percentile",
        default=0.5,
        parse=number(least=0, most=1),
        group=RECOMMENDATIONS,
        metavar="FRACTION",
        help="Set the lower bound to this percentile of the CPU samples, as a fraction from 0 to "
        "1.",
    )
    upper_cpu_percentile: float = flag(
        "--recommendation-upper-bound-cpu-percentile",
        default=0.95,
        parse=number(least=0, most=1),
        group=RECOMMENDATIONS,
        metavar="FRACTION",
        help="Set the upper bound to this percentile of the CPU samples, as a fraction from 0 to "
        "1.",
    )
    target_memory_percentile: float = flag(
        "--target-memory-percentile",
        default=0.9,
        parse=number(least=0, most=1),
        group=RECOMMENDATIONS,
        metavar="FRACTION",
        help="Set the target to this percentile of the memory peaks, as a fraction from 0 to 1.",
    )
    lower_memory_percentile: float = flag(
        "--recommendation-lower-bound-memory-percentile",
        default=0.5,
        parse=number(least=0, most=1),
        group=RECOMMENDATIONS,
        metavar="FRACTION",
        help="Set the lower bound to this percentile of the memory peaks, as a fraction from 0 to "
        "1.",
    )
    upper_memory_percentile: float = flag(
        "--recommendation-upper-bound-memory-percentile",
        default=0.95,
        parse=number(least=0, most=1),
        group=RECOMMENDATIONS,
        metavar="FRACTION",
        help="Set the upper bound to this percentile of the memory peaks, as a fraction from 0 to "
        "1.",
    )
    confidence_interval_cpu: timedelta = flag(
        "--confidence-interval-cpu",
        default=_DAY,
        parse=positive_duration,
        group=RECOMMENDATIONS,
        help="Widen the CPU bounds until history is much longer than this.",
    )
    confidence_interval_memory: timedelta = flag(
        "--confidence-interval-memory",
        default=_DAY,
        parse=positive_duration,
        group=RECOMMENDATIONS,
        help="Widen the memory bounds until history is much longer than this.",
    )
    publish_without_samples: bool = flag(
        "--publish-without-samples",
        default=False,
        parse=boolean,
        group=RECOMMENDATIONS,
        help="Recommend the minimum for containers without usage samples, as the reference does. "
        "Otherwise these containers get no recommendation.",
    )
    max_allowed_cpu: Quantity = flag(
        "--container-recommendation-max-allowed-cpu",
        default=ZERO,
        parse=parse_unsigned,
        group=ROUNDING,
        metavar="QUANTITY",
        help="Cap CPU of containers whose policy sets no maximum. 0: no cap.",
    )
    max_allowed_memory: Quantity = flag(
        "--container-recommendation-max-allowed-memory",
        default=ZERO,
        parse=parse_unsigned,
        group=ROUNDING,
        metavar="QUANTITY",
        help="Cap memory of containers whose policy sets no maximum. 0: no cap.",
    )
    round_cpu_millicores: int = flag(
        "--round-cpu-millicores",
        default=1,
        parse=whole(),
        group=ROUNDING,
        metavar="MILLICORES",
        help="Round CPU up to a multiple of this, in millicores.",
    )
    round_memory_bytes: int = flag(
        "--round-memory-bytes",
        default=1,
        parse=whole(),
        group=ROUNDING,
        metavar="BYTES",
        help="Round memory up to a multiple of this, in bytes.",
    )
    integer_cpu: bool = flag(
        "--cpu-integer-post-processor-enabled",
        default=False,
        parse=boolean,
        group=ROUNDING,
        help="Round CPU up to whole cores for containers that an annotation of the VPA names.",
    )
    humanize_memory: bool = flag(
        "--humanize-memory",
        default=False,
        parse=boolean,
        group=ROUNDING,
        help="Write memory with two decimals in the largest unit. Deprecated: use "
        "--round-memory-bytes.",
    )
