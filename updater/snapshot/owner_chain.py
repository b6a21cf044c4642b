"""Owner chains of pods' direct controllers, remembered while the cached objects are the same."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from common.errors import KubeError
from common.kube.targets import ControllerCaches, TargetError, Targets
from common.target.owners import Absent, Answer, Controller, Found, Topmost, Unknown, topmost
from updater.snapshot.rollout import Rollout, rollout_of
from updater.snapshot.workload_size import GroupSize, group_size, replicas_of, workload_of

logger = logging.getLogger(__name__)

Read: TypeAlias = list[tuple[Controller, object]]
"""The objects of an owner chain in the caches, bottom first."""


@dataclass(slots=True)
class OwnerChain:
    """The owners and sizes of one direct controller; the same object while they don't change."""

    top: Controller
    replicas: int | None  # that the controller wants; None: unknown
    workload: Controller  # the Deployment above it, or the controller itself
    size: GroupSize  # of the workload
    rollout: Rollout | None  # in progress, of the workload
    # None: the API server was called, so the chain isn't remembered.
    read: Read | None = field(compare=False)


class OwnerChains:
    """Finds owner chains of controllers, and remembers them while their objects are the same."""

    def __init__(self, caches: ControllerCaches, targets: Targets) -> None:
        self._caches = caches
        self._targets = targets
        self._known: dict[Controller, OwnerChain] = {}

    async def of(self, controller: Controller) -> OwnerChain | None:
        """Return the owner chain; None: its topmost controller can't be found."""
        before, find = self._known.get(controller), self._caches.find
        read = None if before is None else before.read
        if read is not None and all(find(each) is was for each, was in read):
            return before
        found = self._read(controller)
        if found is None:
            top = await self._look_up_topmost(controller)
            if top is None:
                return None
            found = self._new_chain(controller, top, None)
        if before is not None and before == found:
            before.read = found.read
            return before
        self._known[controller] = found
        return found

    def keep_only(self, controllers: Iterable[Controller]) -> None:
        """Drop the owner chains of other controllers."""
        known = self._known
        self._known = {each: known[each] for each in controllers if each in known}

    def _read(self, controller: Controller) -> OwnerChain | None:
        """Return the owner chain from the caches; None if they don't have all of it."""
        read: Read = []

        def lookup(owner: Controller) -> Answer:
            if not owner.is_well_known:
                return Unknown()
            found = self._caches.find(owner)
            read.append((owner, found))
            return Absent() if found is None else Found(found.metadata.owner_references)

        outcome = topmost(controller, lookup)
        if not isinstance(outcome, Topmost) or outcome.controller is None:
            return None
        return self._new_chain(controller, outcome.controller, read)

    def _new_chain(self, controller: Controller, top: Controller, read: Read | None) -> OwnerChain:
        find = self._caches.find
        workload = workload_of(controller, find)
        return OwnerChain(
            top=top,
            replicas=replicas_of(controller, find),
            workload=workload,
            size=group_size(workload, find),
            rollout=rollout_of(find(workload)),
            read=read,
        )

    async def _look_up_topmost(self, controller: Controller) -> Controller | None:
        try:
            return await self._targets.topmost(controller)
        except (TargetError, KubeError) as error:
            logger.debug(
                "pods skipped, their owner can't be found",
                extra={
                    "controller": f"{controller.kind}/{controller.namespace}/{controller.name}",
                    "error": str(error),
                },
            )
            return None
