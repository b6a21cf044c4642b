"""Who stands above a pod's direct controller, remembered for as long as the caches say the same."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from common.errors import KubeError
from common.kube.targets import ControllerCaches, TargetError, Targets
from common.target.owners import Absent, Answer, Controller, Found, Topmost, Unknown, topmost
from updater.snapshot.rollout import Rollout, rollout_of
from updater.snapshot.workload_size import GroupSize, group_size, replicas_of, workload_of

logger = logging.getLogger(__name__)

Read: TypeAlias = list[tuple[Controller, object]]
"""The objects of a walk, bottom first, as the caches hold them."""


@dataclass(slots=True, eq=False)
class OwnerChain:
    """What is known of one direct controller; the very same value for as long as that is so."""

    top: Controller
    replicas: int | None  # that the controller asks for; None: not known
    workload: Controller  # the Deployment above it, or the controller itself
    size: GroupSize  # of the workload
    rollout: Rollout | None  # of the workload, while one is in progress
    read: Read | None  # None: somebody had to be asked, so nothing here is remembered

    def says_what(self, other: "OwnerChain") -> bool:
        """Return whether the other one says the same, whatever objects it was read from."""
        return (
            self.top == other.top
            and self.replicas == other.replicas
            and self.workload == other.workload
            and self.size == other.size
            and self.rollout == other.rollout
        )


class OwnerChains:
    """Walks up from controllers, once for as long as the objects on the way stay the same."""

    def __init__(self, caches: ControllerCaches, targets: Targets) -> None:
        self._caches = caches
        self._targets = targets
        self._known: dict[Controller, OwnerChain] = {}

    def known(self, controller: Controller) -> OwnerChain | None:
        """Return the owner chain, as far as it is remembered and holds."""
        found = self._known.get(controller)
        if found is None or found.read is None:
            return None
        find = self._caches.find
        for each, was in found.read:
            if find(each) is not was:
                return None
        return found

    async def of(self, controller: Controller) -> OwnerChain | None:
        """Return the owner chain; None where no controller at its top can be found."""
        found = self.known(controller) or self._read(controller)
        if found is None:
            top = await self._asked(controller)
            if top is None:
                return None
            found = self._made(controller, top, None)
        before = self._known.get(controller)
        if before is not None and before is not found and before.says_what(found):
            before.read = found.read
            return before
        self._known[controller] = found
        return found

    def keep_only(self, controllers: Iterable[Controller]) -> None:
        """Forget all owner_chains but these."""
        known = self._known
        self._known = {each: known[each] for each in controllers if each in known}

    def _read(self, controller: Controller) -> OwnerChain | None:
        """Read from the caches; None where these don't tell all."""
        read: Read = []

        def lookup(asked: Controller) -> Answer:
            if not asked.is_well_known:
                return Unknown()
            found = self._caches.find(asked)
            read.append((asked, found))
            return Absent() if found is None else Found(found.metadata.owner_references)

        outcome = topmost(controller, lookup)
        if not isinstance(outcome, Topmost) or outcome.controller is None:
            return None
        return self._made(controller, outcome.controller, read)

    def _made(self, controller: Controller, top: Controller, read: Read | None) -> OwnerChain:
        workload = workload_of(controller, self._caches)
        return OwnerChain(
            top=top,
            replicas=replicas_of(controller, self._caches),
            workload=workload,
            size=group_size(workload, self._caches),
            rollout=rollout_of(self._caches.find(workload)),
            read=read,
        )

    async def _asked(self, controller: Controller) -> Controller | None:
        known = self._targets.known_topmost(controller)
        if known is not None:
            return known.controller
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
