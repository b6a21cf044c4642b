"""What a new cluster already holds."""

from collections.abc import Iterator
from random import Random
from typing import Any

from common.runtime.clock import Clock
from sandbox.accounts import CONTROLLERS, FURNISHERS
from sandbox.apiserver.bootstrap_roles import bootstrap_roles
from sandbox.objects import defaults
from sandbox.objects.metadata import stamp_new
from sandbox.objects.resources import NAMESPACES, PRIORITY_CLASSES, SERVICES, Resource
from sandbox.objects.rules.plain import SYSTEM_PRIORITIES
from sandbox.objects.store import Store
from sandbox.objects.strategies import prepare_create

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def fill_new_cluster(store: Store, clock: Clock, rng: Random, *, port: int = 443) -> None:
    """Create the system's namespaces, priorities and roles, and the Service ``kubernetes``."""
    for resource, obj in _objects(port):
        defaults.fill(resource, obj)
        prepare_create(resource, obj, rng)
        stamp_new(obj, resource, clock.now(), rng)
        store.create(resource, obj)


def _objects(port: int) -> Iterator[tuple[Resource, dict[str, Any]]]:
    for name in _NAMESPACES:
        yield NAMESPACES, {"metadata": {"name": name}}
    yield from bootstrap_roles(sorted((*CONTROLLERS, *FURNISHERS)))
    for name, value in SYSTEM_PRIORITIES.items():
        meta = {"name": name}
        yield (
            PRIORITY_CLASSES,
            {"metadata": meta, "value": value, "preemptionPolicy": "PreemptLowerPriority"},
        )
    yield (
        SERVICES,
        {
            "metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{"name": "https", "port": 443, "targetPort": port}],
            },
        },
    )
