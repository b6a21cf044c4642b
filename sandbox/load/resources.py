"""The resources of the load mode."""

from collections.abc import Container, Iterator
from typing import Any

from sandbox.load.layout import CONTAINERS
from sandbox.load.population import Render
from sandbox.load.reads import Collection
from sandbox.load.world import World

_EMPTY = (
    ("", "v1", "events", "Event"),
    ("", "v1", "limitranges", "LimitRange"),
    ("", "v1", "resourcequotas", "ResourceQuota"),
    ("", "v1", "replicationcontrollers", "ReplicationController"),
    ("", "v1", "services", "Service"),
    ("apps", "v1", "statefulsets", "StatefulSet"),
    ("apps", "v1", "daemonsets", "DaemonSet"),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("batch", "v1", "jobs", "Job"),
    ("batch", "v1", "cronjobs", "CronJob"),
    ("coordination.k8s.io", "v1", "leases", "Lease"),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
)
"""Kinds without objects that the components or the command line read."""

Kind = tuple[str, str, str, str]
"""Group, version, resource and kind."""


def resources(world: World, checkpoints: Container[int]) -> Iterator[Collection]:
    """Yield every resource that can be listed and watched; ``checkpoints`` are the present ones."""
    objects, layout = world.population, world.population.layout

    def of_vpas(kind: Kind, each: int, render: Render, **more: Any) -> Collection:
        """Return a collection with ``each`` objects of every VPA, ordered by VPA."""

        def within(namespace: str) -> range:
            vpas = layout.vpas_in(namespace)
            return range(vpas.start * each, vpas.stop * each)

        return _collection(
            world,
            kind,
            layout.vpas * each,
            render,
            within=within,
            **more,
        )

    def of_cluster(kind: Kind, count: int, render: Render) -> Collection:
        return _collection(world, kind, count, render)

    def vpa_named(namespace: str, name: str) -> int | None:
        vpa = layout.vpa(name)
        return vpa if vpa is not None and layout.namespace(vpa) == namespace else None

    def pod_named(namespace: str, name: str) -> int | None:
        found = objects.named_pod(namespace, name)
        return None if found is None else found.slot

    per_vpa = layout.pods_per_vpa
    yield of_vpas(
        ("", "v1", "pods", "Pod"),
        per_vpa,
        lambda slot: objects.render_pod(objects.pod(slot)),
        find=pod_named,
        changes=world.pods,
        show=objects.render_pod,
    )
    yield of_vpas(
        ("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"),
        per_vpa,
        objects.pod_metrics,
        find=pod_named,
        pages=False,  # a metrics server ignores limits
    )
    autoscaling = ("autoscaling.k8s.io", "v1")
    yield of_vpas(
        (*autoscaling, "verticalpodautoscalers", "VerticalPodAutoscaler"),
        1,
        lambda vpa: objects.render_vpa(objects.vpa(vpa)),
        find=vpa_named,
        changes=world.vpas,
        show=objects.render_vpa,
    )
    yield of_vpas(
        (*autoscaling, "verticalpodautoscalercheckpoints", "VerticalPodAutoscalerCheckpoint"),
        len(CONTAINERS),
        objects.checkpoint,
        is_there=checkpoints.__contains__,
    )
    yield of_vpas(
        ("apps", "v1", "deployments", "Deployment"), 1, objects.deployment, find=vpa_named
    )
    yield of_vpas(
        ("apps", "v1", "replicasets", "ReplicaSet"), layout.groups_per_vpa, objects.replica_set
    )
    yield of_cluster(("", "v1", "nodes", "Node"), layout.nodes, objects.node)
    for kind in _EMPTY:
        yield of_cluster(kind, 0, objects.node)


def _collection(world: World, kind: Kind, count: int, render: Render, **more: Any) -> Collection:
    group, version, resource, name = kind
    return Collection(
        group=group,
        version=version,
        resource=resource,
        kind=name,
        count=count,
        render=render,
        **{"changes": world.nothing, "show": render, **more},
    )
