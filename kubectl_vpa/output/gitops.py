"""Recommended resources in the forms that repositories of manifests use."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kubectl_vpa.judge.template_resources import WorkloadResources
from kubectl_vpa.output.formats import dump_yaml

_CRON_JOB = "CronJob"


def strategic_merge_patch(workload: WorkloadResources, *, namespace: bool) -> dict[str, Any]:
    """Return the patch of a workload: its identity, and the resources of its containers."""
    containers = [
        {"name": name, "resources": {kind: dict(amounts) for kind, amounts in resources.items()}}
        for name, resources in workload.containers.items()
    ]
    spec: dict[str, Any] = {"template": {"spec": {"containers": containers}}}
    if workload.kind == _CRON_JOB:
        spec = {"jobTemplate": {"spec": spec}}
    metadata = {"name": workload.name}
    if namespace:
        metadata["namespace"] = workload.namespace
    return {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "metadata": metadata,
        "spec": spec,
    }


def patches(workloads: Iterable[WorkloadResources]) -> Iterator[dict[str, Any]]:
    """Yield a strategic-merge patch for each workload."""
    for workload in workloads:
        yield strategic_merge_patch(workload, namespace=True)


def kustomize_component(
    workloads: Sequence[WorkloadResources], *, namespaces: bool
) -> dict[str, Any]:
    """Return a component whose patches set the resources.

    With ``namespaces``, a patch applies to the workload of its namespace only. Manifests often
    get their namespace from kustomize, after all patches, so it is left out otherwise.
    """
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [
            {
                "target": _target(workload, namespace=namespaces),
                "patch": dump_yaml(strategic_merge_patch(workload, namespace=namespaces)),
            }
            for workload in workloads
        ],
    }


def helm_values(workloads: Iterable[WorkloadResources], *, namespaces: bool) -> dict[str, Any]:
    """Return values: workload, container, ``resources``; below the namespace if there are many."""
    values: dict[str, Any] = {}
    for workload in workloads:
        place = values.setdefault(workload.namespace, {}) if namespaces else values
        place.setdefault(workload.name, {}).update(
            {
                name: {"resources": {kind: dict(each) for kind, each in resources.items()}}
                for name, resources in workload.containers.items()
            }
        )
    return values


def _target(workload: WorkloadResources, *, namespace: bool) -> Mapping[str, str]:
    group, _, version = workload.api_version.rpartition("/")
    target = {"group": group} if group else {}
    # Kustomize reads the name as a regular expression for the whole name.
    target |= {"version": version, "kind": workload.kind, "name": workload.name.replace(".", r"\.")}
    return target | ({"namespace": workload.namespace} if namespace else {})
