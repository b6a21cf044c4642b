"""What checkpoints say about the usage of a VPA's containers.

A checkpoint is a histogram whose samples lose weight with time. It says how the recent usage is
distributed, and not how it was at a given time.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from common.api.autoscaling import VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint
from common.errors import DecodeError
from common.quantity import Format, Quantity
from common.read_model.recommender import VpaSummary
from common.resources import CPU, MEMORY
from kubectl_vpa.results.history import ContainerHistory, ResourceHistory
from recommender.checkpoints.codec import decode
from recommender.model import buckets
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.timestamps import moment

_FRACTIONS = (0.5, 0.9, 0.95, 1.0)
_ANY_HALF_LIFE = timedelta(days=1)  # the weights of one histogram decay alike


def usage_history(
    vpa: VerticalPodAutoscaler,
    checkpoints: Sequence[VerticalPodAutoscalerCheckpoint],
    summary: VpaSummary | None,
) -> Iterator[ContainerHistory]:
    """Yield the history of each container of a VPA; a checkpoint that can't be read is left out."""
    confidences = {each.name: each.confidence for each in summary.containers} if summary else {}
    for checkpoint in checkpoints:
        if checkpoint.spec.vpa_object_name != vpa.metadata.name:
            continue
        try:
            history = decode(checkpoint.status)
        except DecodeError:
            continue
        container = checkpoint.spec.container_name
        confidence = confidences.get(container, {})
        yield ContainerHistory(
            container=container,
            samples=history.samples,
            first_sample=moment(history.first_sample),
            last_sample=moment(history.last_sample),
            saved_at=checkpoint.status.last_update_time,
            cpu=_resource(vpa, container, CPU, history.cpu, confidence),
            memory=_resource(vpa, container, MEMORY, history.memory, confidence),
        )


def percentiles(resource: str, saved: SavedHistogram) -> Sequence[str | None]:
    """Return the amounts that half, 90 %, 95 % and all of the weight stay within.

    They are the recommender's, before margin and bounds. None without samples.
    """
    histograms = Histograms(buckets.CPU if resource == CPU else buckets.MEMORY, _ANY_HALF_LIFE)
    rows = histograms.new_rows(1)
    histograms.load(int(rows[0]), saved)
    if histograms.is_empty(rows)[0]:
        return [None] * len(_FRACTIONS)
    amounts = histograms.percentiles(rows, _FRACTIONS)[0].tolist()
    if resource == CPU:
        return [str(Quantity.from_milli(each)) for each in amounts]
    return [str(Quantity.from_value(each, Format.BINARY_SI)) for each in amounts]


def _resource(
    vpa: VerticalPodAutoscaler,
    container: str,
    resource: str,
    saved: SavedHistogram,
    confidence: Mapping[str, float],
) -> ResourceHistory:
    recommended = vpa.status.recommendation
    numbers = next(
        (
            each
            for each in (recommended.container_recommendations if recommended else None) or ()
            if each.container_name == container
        ),
        None,
    )
    p50, p90, p95, p100 = percentiles(resource, saved)
    return ResourceHistory(
        weight=round(saved.total, 4),
        p50=p50,
        p90=p90,
        p95=p95,
        p100=p100,
        target=_amount(numbers.target if numbers else {}, resource),
        lower_bound=_amount(numbers.lower_bound if numbers else {}, resource),
        upper_bound=_amount(numbers.upper_bound if numbers else {}, resource),
        confidence=confidence.get(resource),
    )


def _amount(amounts: Mapping[str, object] | None, resource: str) -> str | None:
    found = (amounts or {}).get(resource)
    return None if found is None else str(found)
