"""The metrics of requests, targets and bounds, at the end of each cycle."""

from collections.abc import Mapping

from common.api.autoscaling import VpaStatus
from common.identity_cache import IdentityCache
from common.recommendation.amounts import ContainerAmounts
from common.resources import CPU, RESOURCES, ResourceQuantities
from common.runtime.pausing import pausing
from recommender.metrics import RecommenderMetrics
from recommender.model.keys import VpaKey
from recommender.model.request_balance import balance_by_namespace, request_sums
from recommender.model.usage import Usage
from recommender.publish.status import recommended_amounts
from recommender.request_metrics import ContainerFigure, ContainerLabels, in_units
from recommender.sources.target_resolution import LoadedVpa

_MOST_STATUSES = 20_000  # whose amounts are kept; more than clusters have VPAs
_SLICE = 200  # VPAs before other tasks run

Sums = tuple[list[float], list[int]]
"""The sum of the requests, and the number of containers, of each aggregate."""


class RequestReport:
    """Computes the metrics of requests from the model and the published recommendations."""

    def __init__(self, usage: Usage, metrics: RecommenderMetrics) -> None:
        self._usage = usage
        self._metrics = metrics.requests
        self._parsed = IdentityCache[Mapping[str, ContainerAmounts]](_MOST_STATUSES)

    async def report(self, vpas: Mapping[VpaKey, LoadedVpa]) -> None:
        """Replace the values of the last cycle."""
        self._metrics.keep_only(vpas.keys())
        self._metrics.publish_balances(
            {resource: balance_by_namespace(self._usage, resource) for resource in RESOURCES}
        )
        if self._metrics.per_container:
            self._metrics.publish_containers(await self._containers(vpas))

    async def _containers(
        self, vpas: Mapping[VpaKey, LoadedVpa]
    ) -> dict[ContainerFigure, dict[ContainerLabels, float]]:
        found: dict[ContainerFigure, dict[ContainerLabels, float]] = {
            figure: {} for figure in ContainerFigure
        }
        sums = {resource: self._sums(resource) for resource in RESOURCES}
        async for key in pausing(vpas, every=_SLICE):
            for one in self._amounts(vpas[key].vpa.status).values():
                for resource in RESOURCES:
                    labels = (key.namespace, key.name, one.name, resource)
                    mean = self._mean(key, one.name, sums[resource])
                    if mean is not None:
                        found[ContainerFigure.REQUEST][labels] = in_units(resource, mean)
                    for figure, amounts in _published(one).items():
                        if (quantity := amounts.get(resource)) is not None:
                            amount = quantity.milli if resource == CPU else quantity.value
                            found[figure][labels] = in_units(resource, amount)
        return found

    def _amounts(self, status: VpaStatus) -> Mapping[str, ContainerAmounts]:
        return self._parsed.get((status,), lambda: recommended_amounts(status))

    def _sums(self, resource: str) -> Sums:
        sums, counts = request_sums(self._usage, resource)
        return sums.tolist(), counts.tolist()

    def _mean(self, key: VpaKey, container: str, of: Sums) -> float | None:
        """Return the average request of the containers of a name; None if there are none."""
        sums, counts = of
        rows = self._usage.rows_of(key, container).tolist()
        count = sum(counts[row] for row in rows if row < len(counts))
        return sum(sums[row] for row in rows if row < len(sums)) / count if count else None


def _published(one: ContainerAmounts) -> dict[ContainerFigure, ResourceQuantities]:
    return {
        ContainerFigure.TARGET: one.target,
        ContainerFigure.LOWER_BOUND: one.lower_bound,
        ContainerFigure.UPPER_BOUND: one.upper_bound,
        ContainerFigure.UNCAPPED_TARGET: one.uncapped_target,
    }
