"""The workloads that may get VPAs."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from common.api.base import Wire
from common.api.meta import ObjectMeta
from common.api.workloads import JobStatus, has_ended
from common.kube.endpoints import JOBS, WORKLOADS, Endpoint, with_type
from common.target.owners import Controller, controller_of
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.selected_workloads import ListedWorkload


class _Listed(Wire, frozen=True, kw_only=True):
    """A workload; only the status of Jobs is read."""

    metadata: ObjectMeta
    status: JobStatus = JobStatus()


async def list_workloads(reader: Reader, *, label_selector: str) -> Sequence[ListedWorkload]:
    """Return the workloads of all kinds that a VPA can target, without Jobs that have ended.

    Raises:
        KubeError: the API server is unreachable, or refuses the selector.
    """
    kinds = [with_type(each, _Listed, metadata_only=each is not JOBS) for each in WORKLOADS]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(reader.list(each, label_selector=label_selector)) for each in kinds
        ]
    return [
        each
        for kind, task in zip(kinds, tasks, strict=True)
        for each in _workloads(kind, task.result() or ())
    ]


def _workloads(kind: Endpoint[Any], found: Sequence[_Listed]) -> Iterator[ListedWorkload]:
    for each in found:
        meta = each.metadata
        if meta.deletion_timestamp is None and not has_ended(each.status):
            yield ListedWorkload(
                workload=Controller(meta.namespace, kind.kind, meta.name, kind.api_version),
                owner=controller_of(meta),
                labels=meta.labels or {},
            )
