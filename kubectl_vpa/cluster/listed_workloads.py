"""The workloads that may get VPAs."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from common.api.base import Wire
from common.api.meta import ObjectMeta
from common.api.workloads import JobStatus, has_ended
from common.kube.endpoints import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Endpoint,
)
from common.target.owners import Controller, controller_of
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.selected_workloads import ListedWorkload


class _Listed(Wire, frozen=True, kw_only=True):
    """A workload; only the status of Jobs is read."""

    metadata: ObjectMeta
    status: JobStatus = JobStatus()


_KINDS: tuple[Endpoint[Any], ...] = (
    *(DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS),
    *(REPLICA_SETS, REPLICATION_CONTROLLERS, JOBS),
)


async def list_workloads(reader: Reader, *, label_selector: str) -> Sequence[ListedWorkload]:
    """Return the workloads of all kinds that a VPA can target, without Jobs that have ended.

    Raises:
        KubeError: the API server is unreachable, or refuses the selector.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [
            (kind, group.create_task(reader.list(_endpoint(kind), label_selector=label_selector)))
            for kind in _KINDS
        ]
    return [each for kind, task in tasks for each in _workloads(kind, task.result() or ())]


def _endpoint(kind: Endpoint[Any]) -> Endpoint[_Listed]:
    return Endpoint(
        kind.group,
        kind.version,
        kind.resource,
        kind.kind,
        _Listed,
        metadata_only=kind is not JOBS,
    )


def _workloads(kind: Endpoint[Any], found: Sequence[_Listed]) -> Iterator[ListedWorkload]:
    for each in found:
        meta = each.metadata
        if meta.deletion_timestamp is None and not has_ended(each.status):
            yield ListedWorkload(
                workload=Controller(meta.namespace, kind.kind, meta.name, kind.api_version),
                owner=controller_of(meta),
                labels=meta.labels or {},
            )
