"""What a new cluster already holds."""

from collections.abc import Iterator
from random import Random
from typing import Any

from common.runtime.clock import Clock
from sandbox.apiserver.bootstrap_roles import bootstrap_roles
from sandbox.objects import defaults
from sandbox.objects.metadata import stamp_new
from sandbox.objects.resources import BUILTIN, NAMESPACES, SERVICES, Resource
from sandbox.objects.store import Store
from sandbox.objects.strategies import prepare_create

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_CONTROLLERS = (
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "disruption-controller",
    "job-controller",
    "pvc-protection-controller",
    "replicaset-controller",
    "replication-controller",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "service-account-controller",
    "statefulset-controller",
)
"""Service accounts under which our controllers write, which may do everything."""
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


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
    yield from bootstrap_roles(_CONTROLLERS)
    priorities = next(one for one in BUILTIN if one.kind == "PriorityClass")
    for name, value in _PRIORITIES.items():
        meta = {"name": name}
        yield (
            priorities,
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
