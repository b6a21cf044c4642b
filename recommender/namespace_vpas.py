"""The controller that gives VPAs to the workloads of namespaces with a label (--namespace-vpas).

The workloads are those of the caches that the recommender has anyway. Namespaces, excluded
workloads and HPAs are listed in each pass and not kept.
"""

import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, assert_never

import msgspec

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.api.meta import OwnedObject
from common.api.workloads import Job, has_ended
from common.errors import (
    ConflictError,
    DecodeError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    UnreachableError,
)
from common.kube.client import PatchType
from common.kube.endpoints import HPAS, NAMESPACES, VPAS, Endpoint, with_type
from common.runtime.clock import Clock
from common.runtime.pausing import pausing
from common.target.horizontal import hpas_by_target
from common.target.owners import Controller, TargetKey, controller_of
from common.vpa_creation.new_vpas import Candidate, NewVpa
from common.vpa_creation.policy import (
    ENABLE,
    ENABLED,
    EXCLUDED,
    PREFIX,
    CreationPolicy,
    SettingError,
    annotated_policy,
)
from common.vpa_creation.reconciliation import (
    Changes,
    DeletedVpa,
    EnabledNamespaces,
    UpdatedVpa,
    VpaName,
    differs,
    is_managed,
    reconcile,
)
from recommender.metrics import RecommenderMetrics
from recommender.sources.informers import Informers
from recommender.state_log import StateLog
from recommender.write_failures import WriteFailures

logger = logging.getLogger(__name__)

MOST_WRITES = 100
"""VPAs that one pass creates, updates or deletes; the next pass continues."""

_SEARCHED = 1000  # workloads that are seen before other tasks run


class NamespaceVpas:
    """Creates, updates and deletes VPAs, in one namespace or in all."""

    def __init__(
        self,
        informers: Informers,
        *,
        namespace: str,
        ignored: Collection[str],
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        """Initialize; in the ``ignored`` namespaces nothing is done."""
        self._informers = informers
        self._client = informers.client
        self._namespace = namespace
        self._ignored = ignored
        self._metrics = metrics
        self._clock = clock
        self._absent: Mapping[VpaName, datetime] = {}
        self._invalid: dict[str, str] = {}  # the logged error by namespace
        self._failures = WriteFailures("vpa", metrics)
        self._unread = StateLog(logger, over="namespaces are read again for --namespace-vpas")

    async def run_once(self) -> None:
        """Run one pass; it changes nothing if something can't be read or the caches are stale."""
        if not self._informers.fresh:
            return
        try:
            changes = await self._decide()
        except (KubeError, DecodeError) as error:
            text = str(error)
            self._unread.report("VPAs of namespaces not reconciled", cause=text, error=text)
            return
        self._unread.report("")
        self._absent = changes.absent
        await self._write(changes)
        self._failures.report()

    # Read and decide

    async def _decide(self) -> Changes:
        namespaces = await self._namespaces()
        vpas = [
            vpa
            for vpa in self._informers.vpas.snapshot.items()
            if vpa.metadata.namespace in namespaces.policies or is_managed(vpa)
        ]
        if not namespaces.policies and not vpas:
            return Changes(absent={})
        return reconcile(
            namespaces,
            [each async for each in self._candidates(namespaces.policies)],
            vpas,
            await self._hpas(namespaces.policies),
            absent=self._absent,
            now=self._clock.now(),
        )

    async def _namespaces(self) -> EnabledNamespaces:
        """Read the namespaces with the label, and their policies.

        A namespace that can't be read doesn't count as one without the label.
        """
        listing = await self._client.list(NAMESPACES, label_selector=f"{ENABLE}={ENABLED}")
        policies: dict[str, CreationPolicy] = {}
        unchanged = {*self._ignored, *listing.undecodable}
        invalid: dict[str, str] = {}
        for found in listing.items:
            name = found.metadata.name
            if name in self._ignored or (self._namespace and name != self._namespace):
                continue
            unchanged.add(name)  # until its annotations are understood
            if found.metadata.deletion_timestamp is not None:
                continue
            with self._metrics.object_errors.around("namespace", NAMESPACES.kind, "", name):
                try:
                    policies[name] = annotated_policy(found.metadata.annotations)
                except SettingError as error:
                    invalid[name] = str(error)
                    self._log_invalid(name, error)
                else:
                    unchanged.remove(name)
        for name in self._invalid.keys() - invalid.keys():
            logger.info("annotations of the namespace are valid", extra={"namespace": name})
        self._invalid = invalid
        self._metrics.count_enabled_namespaces(valid=len(policies), invalid=len(invalid))
        return EnabledNamespaces(policies=policies, unchanged=unchanged)

    def _log_invalid(self, namespace: str, error: SettingError) -> None:
        if self._invalid.get(namespace) != str(error):
            extra = {
                "namespace": namespace,
                "annotation": f"{PREFIX}{error.setting}",
                "problem": error.problem,
            }
            logger.warning(
                "invalid annotation: VPAs of the namespace stay as they are", extra=extra
            )

    async def _candidates(self, namespaces: Collection[str]) -> AsyncIterator[Candidate]:
        """Yield the workloads of these namespaces, without Jobs that have ended."""
        for cache in self._informers.controllers:
            kind: Endpoint[Any] = cache.endpoint
            left_out = await self._left_out(kind) if namespaces else frozenset()
            found = [each for name in namespaces for each in cache.in_namespace(name)]
            async for each in pausing(found, every=_SEARCHED):
                meta = each.metadata
                if meta.deletion_timestamp is not None:
                    continue
                if isinstance(each, Job) and has_ended(each.status):
                    continue
                yield Candidate(
                    workload=Controller(meta.namespace, kind.kind, meta.name, kind.api_version),
                    owner=controller_of(meta),
                    excluded=(meta.namespace, meta.name) in left_out,
                )

    async def _left_out(self, kind: Endpoint[Any]) -> frozenset[tuple[str, str]]:
        """Read the workloads with the label that excludes them; the caches have no labels."""
        listing = await self._client.list(
            with_type(kind, OwnedObject, metadata_only=True),
            namespace=self._namespace,
            label_selector=f"{ENABLE}={EXCLUDED}",
        )
        return frozenset((each.metadata.namespace, each.metadata.name) for each in listing.items)

    async def _hpas(
        self, policies: Mapping[str, CreationPolicy]
    ) -> Mapping[TargetKey, Sequence[HorizontalPodAutoscaler]]:
        """Read the HPAs; a cluster may not serve them."""
        if not policies:
            return {}
        try:
            listing = await self._client.list(HPAS, namespace=self._namespace)
        except NotFoundError:
            return {}
        return hpas_by_target(listing.items)

    # Write

    async def _write(self, changes: Changes) -> None:
        """Write some of the changes, in a random order: those that fail don't delay others."""
        due: list[NewVpa | UpdatedVpa | DeletedVpa]
        due = [*changes.delete, *changes.update, *changes.create]
        self._client.rng.shuffle(due)
        for each in due[:MOST_WRITES]:
            meta = each.vpa.metadata
            try:
                await self._apply(each)
            except (NotLeadingError, UnreachableError) as error:
                self._failures.add(error, vpa=f"{meta.namespace}/{meta.name}")
                return  # all other writes would fail, too, and delay the next cycle
            except (ConflictError, NotFoundError):
                continue  # it has changed since it was read; the next pass decides again
            except (KubeError, DecodeError) as error:
                self._failures.add(error, vpa=f"{meta.namespace}/{meta.name}")

    async def _apply(self, change: NewVpa | UpdatedVpa | DeletedVpa) -> None:
        match change:
            case NewVpa():
                await self._create(change)
            case UpdatedVpa():
                await self._update(change)
            case DeletedVpa():
                await self._delete(change)
            case _:
                assert_never(change)

    async def _create(self, new: NewVpa) -> None:
        meta, conflict = new.vpa.metadata, new.conflict
        await self._client.create(VPAS, new.vpa, namespace=meta.namespace)
        hpa = (
            {}
            if conflict is None
            else {"hpa": conflict.hpa, "scales_on": ",".join(conflict.resources)}
        )
        self._done("created", new.vpa, workload=f"{new.workload.kind}/{new.workload.name}", **hpa)

    async def _update(self, update: UpdatedVpa) -> None:
        meta, policy = update.vpa.metadata, update.policy
        current = await self._current(update.vpa)
        if not is_managed(current) or not differs(current, policy):
            return
        resources = policy.resource_policy
        patch = {
            "metadata": {"resourceVersion": current.metadata.resource_version},
            "spec": {
                "updatePolicy": {
                    "updateMode": policy.mode.value,
                    "minReplicas": policy.min_replicas,
                },
                "resourcePolicy": None if resources is None else msgspec.to_builtins(resources),
            },
        }
        await self._client.patch(
            VPAS, meta.name, patch, patch_type=PatchType.MERGE, namespace=meta.namespace
        )
        self._done("updated", update.vpa, mode=policy.mode.value)

    async def _delete(self, deletion: DeletedVpa) -> None:
        meta = deletion.vpa.metadata
        current = await self._current(deletion.vpa)
        if not is_managed(current) or current.spec.target_ref != deletion.vpa.spec.target_ref:
            return
        await self._client.delete(
            VPAS,
            meta.name,
            namespace=meta.namespace,
            uid=current.metadata.uid,
            resource_version=current.metadata.resource_version,
        )
        self._done("deleted", deletion.vpa, why=deletion.why)

    async def _current(self, vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
        """Read a VPA again: its cached version may be older than a change of its mark."""
        return await self._client.get(VPAS, vpa.metadata.name, namespace=vpa.metadata.namespace)

    def _done(self, action: str, vpa: VerticalPodAutoscaler, **details: object) -> None:
        self._metrics.namespace_vpas.labels(action).inc()
        name = f"{vpa.metadata.namespace}/{vpa.metadata.name}"
        logger.info("VPA %s", action, extra={"vpa": name, **details})
