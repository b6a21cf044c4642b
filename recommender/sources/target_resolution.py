"""What the look-ups of a VPA's target came to, with the texts of its conditions.

Source: recommender.md section 10; vertical-pod-autoscaler/pkg/recommender/input/cluster_feeder.go.
"""

from dataclasses import dataclass, replace

from msgspec import structs

from common.api.autoscaling import TargetReference, VerticalPodAutoscaler, VpaStatus
from common.labels import NOTHING, Selector
from common.target.owners import Controller


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResolution:
    """Which pods a VPA's target selects, or why it selects none."""

    selector: Selector
    unsupported: str = ""  # the reference's text of ConfigUnsupported; empty: all is well
    owner: str = ""  # what the target should be instead
    open: bool = False  # a look-up has not answered yet: neither wrong nor right

    @property
    def message(self) -> str:
        """Return the message of ConfigUnsupported with the right owner; empty without one."""
        return f"{self.unsupported}: {self.owner}" if self.owner else self.unsupported


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedVpa:
    """A VPA of this cycle, and what its target came to."""

    vpa: VerticalPodAutoscaler
    resolution: TargetResolution
    controlled_by: str = ""  # the VPA that controls the target's pods instead; empty: none

    def is_unchanged_since(self, before: "LoadedVpa | None") -> bool:
        """Return whether it is the very same version of the VPA, with the same resolution."""
        return (
            before is not None and self.vpa is before.vpa and self.resolution == before.resolution
        )

    def with_status(self, status: VpaStatus) -> "LoadedVpa":
        """Return the same, of which the status has been written since."""
        return replace(self, vpa=structs.replace(self.vpa, status=status))


def unreadable(reason: str = "") -> TargetResolution:
    """Return the resolution of a target without a selector; ``reason`` says why."""
    message = f"Cannot read targetRef. Reason: {reason}" if reason else "Cannot read targetRef"
    return TargetResolution(selector=NOTHING, unsupported=message)


def resolved(
    selector: Selector, target: TargetReference, namespace: str, topmost: Controller | None
) -> TargetResolution:
    """Return the resolution of a known selector, for topmost controllers only."""
    wanted = Controller(namespace, target.kind, target.name, target.api_version)
    if topmost is None:
        return TargetResolution(
            selector=NOTHING,
            unsupported="Unknown error during checking if target "
            f"{_name(target)} is a topmost well-known or scalable controller",
        )
    if topmost != wanted:
        return TargetResolution(
            selector=NOTHING,
            unsupported=f"The target {_name(target)} has a parent controller but it should "
            "point to a topmost well-known or scalable controller",
            owner=_name(topmost),
        )
    return TargetResolution(selector=selector)


def unchecked(target: TargetReference, error: str) -> TargetResolution:
    """Return the resolution of a target whose topmost controller could not be looked up."""
    return TargetResolution(
        selector=NOTHING,
        unsupported=f"Error checking if target {_name(target)} is a topmost well-known or "
        f"scalable controller: {error}",
    )


def _name(target: TargetReference | Controller) -> str:
    return f"{target.api_version}.{target.kind}/{target.name}"
