"""The metric of how long ago each cache heard from the API server."""

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from common.kube.cache import Cache


class CacheMetrics:
    """The ages of the caches of a component."""

    def __init__(self, component: str, registry: CollectorRegistry) -> None:
        self._ages = Gauge(
            f"vpa_{component}_cache_age_seconds",
            "Time since the API server last sent something about a resource: a list, an event, or "
            "a bookmark, which it sends about once a minute.",
            ("api_resource",),
            registry=registry,
        )

    def follow(self, caches: Iterable[Cache[Any]]) -> None:
        """Expose the ages of these caches, computed at each scrape."""
        for cache in caches:
            self._ages.labels(cache.endpoint.resource).set_function(cache.age)
