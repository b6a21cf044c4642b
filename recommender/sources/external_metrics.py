"""Usage from external.metrics.k8s.io: one request for each pod of a VPA and each resource.

Source: recommender.md 12.3; ``externalMetricsClient``,
vertical-pod-autoscaler/pkg/recommender/input/metrics/metrics_source.go.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from common.api.decoding import decode
from common.api.metrics import (
    ContainerMetrics,
    ExternalMetricValue,
    ExternalMetricValueList,
    MetricsMeta,
    PodMetrics,
)
from common.errors import DecodeError, KubeError
from common.kube.client import KubeClient
from recommender.concurrency import run_concurrently
from recommender.model.keys import PodKey
from recommender.model.usage import Usage
from recommender.sources.fetch_result import OK, FetchOutcome, FetchResult

_ROOT = "/apis/external.metrics.k8s.io/v1beta1"
_MOST_FAILURES = 100  # if all of the first requests fail, the metrics server is down

_lists = msgspec.json.Decoder(ExternalMetricValueList)
_values = msgspec.json.Decoder(ExternalMetricValue)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetricQuery:
    pod: PodKey
    resource: str
    metric: str
    selector: str


class ExternalMetricsSource:
    """Requests the usage of each pod that a VPA matches.

    A failed request affects only its pod; the reference drops all usage of the cycle. A resource
    without the name of a metric has no samples (Q8).
    """

    def __init__(
        self,
        client: KubeClient,
        usage: Usage,
        *,
        metrics: Mapping[str, str],
        container_label: str,
        workers: int,
    ) -> None:
        """Initialize the source.

        ``metrics`` has the name of each resource's metric; empty: none. ``container_label`` is the
        label of a value that names its container.
        """
        self._client = client
        self._usage = usage
        self._metrics = {resource: name for resource, name in metrics.items() if name}
        self._container_label = container_label
        self._workers = workers

    async def fetch(self, namespaces: Collection[str]) -> FetchResult:
        """Return the latest usage in these namespaces, which have VPAs."""
        found: list[PodMetrics] = []
        answers: list[FetchOutcome] = []
        answered = False

        async def fetch_one(wanted: _MetricQuery) -> None:
            nonlocal answered
            if not self._client.reachable or (len(answers) >= _MOST_FAILURES and not answered):
                return
            place = f"{wanted.pod.namespace}/{wanted.pod.name} {wanted.metric}"
            try:
                used = await self._request(wanted)
            except (KubeError, DecodeError) as error:
                answers.append(FetchOutcome.failed(place, error))
            else:
                answered = True
                found.append(used)
                answers.append(FetchOutcome(place=place, outcome=OK))

        await run_concurrently(self._queries(namespaces), fetch_one, workers=self._workers)
        return FetchResult(metrics=tuple(found), answers=tuple(answers))

    def _queries(self, namespaces: Collection[str]) -> Iterator[_MetricQuery]:
        # A copy, because the model may change between requests.
        for pod, tracked in list(self._usage.pods.items()):
            if pod.namespace not in namespaces:
                continue
            for key in sorted(tracked.label_set.autoscalers):
                autoscaler = self._usage.autoscalers.get(key)
                if autoscaler is None:
                    continue
                selector = ",".join(filter(None, (str(autoscaler.selector), f"pod={pod.name}")))
                for resource, metric in self._metrics.items():
                    yield _MetricQuery(pod=pod, resource=resource, metric=metric, selector=selector)

    async def _request(self, wanted: _MetricQuery) -> PodMetrics:
        """Return the values of one metric, with the time and window of the first one.

        Items that can't be decoded are left out. The values are not parsed.

        Raises:
            KubeError: the request failed.
            DecodeError: the response is not a list, or no item can be decoded.
        """
        namespace, metric = quote(wanted.pod.namespace, safe=""), quote(wanted.metric, safe="")
        path = f"{_ROOT}/namespaces/{namespace}/{metric}"
        query = {"labelSelector": wanted.selector}
        body = await self._client.request("GET", path, query=query, retry=False)
        try:
            values = _decodable(decode(_lists, body).items or ())
        except msgspec.DecodeError as error:
            raise DecodeError(f"{path} is not a list of metric values: {error}") from error
        named = [(value, value.metric_labels or {}) for value in values]
        return PodMetrics(
            metadata=MetricsMeta(name=wanted.pod.name, namespace=wanted.pod.namespace),
            timestamp=values[0].timestamp if values else None,
            window=_duration(values[0].window) if values else None,
            containers=tuple(
                ContainerMetrics(
                    name=labels[self._container_label], usage={wanted.resource: value.value}
                )
                for value, labels in named
                if self._container_label in labels
            ),
        )


def _duration(seconds: object) -> str | None:
    """Return a number of seconds as a Go duration; None if it is not an integer."""
    is_whole = isinstance(seconds, int) and not isinstance(seconds, bool)
    return f"{seconds}s" if is_whole else None


def _decodable(items: Sequence[msgspec.Raw]) -> list[ExternalMetricValue]:
    """Return the items that can be decoded.

    Raises:
        msgspec.DecodeError: there are items, and none can be decoded.
    """
    values: list[ExternalMetricValue] = []
    failure: msgspec.DecodeError | None = None
    for item in items:
        try:
            values.append(decode(_values, item))
        except msgspec.DecodeError as error:
            failure = error
    if failure is not None and not values:
        raise failure
    return values
