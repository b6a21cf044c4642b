"""The pod templates of the workloads that VPAs target."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import Wire
from common.api.meta import NamedObject
from common.api.workloads import NO_TEMPLATE, ResourcesTemplate, TemplateSpec
from common.kube.endpoints import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Endpoint,
    with_type,
)
from common.target.controlling import target_key
from common.target.owners import TargetKey
from kubectl_vpa.cluster.reader import Reader


class _Spec(Wire, frozen=True, kw_only=True):
    template: ResourcesTemplate = NO_TEMPLATE


class _Templated(NamedObject, frozen=True, kw_only=True, gc=False):
    """An object with a pod template, of which nothing else is read."""

    spec: _Spec = _Spec()


class _JobTemplate(Wire, frozen=True, kw_only=True):
    spec: _Spec = _Spec()


class _CronJobSpec(Wire, frozen=True, kw_only=True):
    job_template: _JobTemplate = _JobTemplate()


class _CronJob(NamedObject, frozen=True, kw_only=True, gc=False):
    """A CronJob, of which nothing but the pod template is read."""

    spec: _CronJobSpec = _CronJobSpec()


@dataclass(frozen=True, slots=True)
class _Kind:
    endpoint: Endpoint[Any]
    template: Callable[[Any], ResourcesTemplate]


def _kind(endpoint: Endpoint[Any]) -> _Kind:
    return _Kind(with_type(endpoint, _Templated), lambda each: each.spec.template)


_KINDS = {
    each.endpoint.kind: each
    for each in (
        _kind(DEPLOYMENTS),
        _kind(STATEFUL_SETS),
        _kind(DAEMON_SETS),
        _kind(REPLICATION_CONTROLLERS),
        _Kind(with_type(CRON_JOBS, _CronJob), lambda each: each.spec.job_template.spec.template),
    )
}
"""The kinds whose templates can be changed; those of Jobs and of owned ReplicaSets can't."""


async def read_templates(
    reader: Reader, vpas: Sequence[VerticalPodAutoscaler]
) -> Mapping[TargetKey, TemplateSpec]:
    """Read the templates of all targets, with one list for each kind."""
    targets = set(filter(None, map(target_key, vpas)))
    kinds = [_KINDS[kind] for kind in sorted({key[1] for key in targets} & _KINDS.keys())]
    async with asyncio.TaskGroup() as group:
        tasks = [(kind, group.create_task(reader.list(kind.endpoint))) for kind in kinds]
    return {
        key: kind.template(item).spec
        for kind, task in tasks
        for item in task.result() or ()
        if (key := (item.metadata.namespace, kind.endpoint.kind, item.metadata.name)) in targets
    }
