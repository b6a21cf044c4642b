"""Results of the look-ups of a VPA's target, with the texts of its conditions.

Source: recommender.md section 10; vertical-pod-autoscaler/pkg/recommender/input/cluster_feeder.go.
"""

from dataclasses import dataclass, replace

from msgspec import structs

from common.api.autoscaling import TargetReference, VerticalPodAutoscaler, VpaStatus
from common.api.workloads import NO_TEMPLATE, ResourcesTemplate
from common.labels import NOTHING, Selector
from common.target.owners import Controller


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResolution:
    """The selector of a VPA's target, or the reason why there is none."""

    selector: Selector
    unsupported: str = ""  # the reference's text of ConfigUnsupported; empty: supported
    owner: str = ""  # the topmost controller, which should be the target
    open: bool = False  # a look-up failed temporarily, so the selector is unknown
    template: ResourcesTemplate = NO_TEMPLATE  # of the target's pods

    @property
    def message(self) -> str:
        """Return the message of ConfigUnsupported, with the owner if known; empty: supported."""
        return f"{self.unsupported}: {self.owner}" if self.owner else self.unsupported


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedVpa:
    """A VPA of this cycle, with the resolution of its target."""

    vpa: VerticalPodAutoscaler
    resolution: TargetResolution
    controlled_by: str = ""  # another VPA that controls the target's pods; empty: none
    controls: tuple[str, ...] = ()  # the names of the VPAs whose pods it controls instead

    def is_unchanged_since(self, before: "LoadedVpa | None") -> bool:
        """Return True if it has the same version of the VPA and the same resolution."""
        return (
            before is not None and self.vpa is before.vpa and self.resolution == before.resolution
        )

    def with_status(self, status: VpaStatus) -> "LoadedVpa":
        """Return a copy with another status."""
        return replace(self, vpa=structs.replace(self.vpa, status=status))


def unreadable(reason: str = "") -> TargetResolution:
    """Return the resolution of a target whose selector is unknown for ``reason``."""
    message = f"Cannot read targetRef. Reason: {reason}" if reason else "Cannot read targetRef"
    return TargetResolution(selector=NOTHING, unsupported=message)


def resolved(
    selector: Selector,
    target: TargetReference,
    namespace: str,
    topmost: Controller | None,
    template: ResourcesTemplate = NO_TEMPLATE,
) -> TargetResolution:
    """Return the resolution with a selector; unsupported if the target isn't the topmost one."""
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
    return TargetResolution(selector=selector, template=template)


def unchecked(target: TargetReference, error: str) -> TargetResolution:
    """Return the resolution of a target after a failed look-up of its topmost controller."""
    return TargetResolution(
        selector=NOTHING,
        unsupported=f"Error checking if target {_name(target)} is a topmost well-known or "
        f"scalable controller: {error}",
    )


def _name(target: TargetReference | Controller) -> str:
    return f"{target.api_version}.{target.kind}/{target.name}"
