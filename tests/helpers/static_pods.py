"""The static pods of deploy/control-plane, and the page that describes them."""

from dataclasses import dataclass
from typing import Any

import yaml

from page_commands import ROOT

CONTROL_PLANE = ROOT / "deploy" / "control-plane"
STATIC_PODS = CONTROL_PLANE / "static-pods"
PAGE = "docs/control-plane.md"


@dataclass(frozen=True, slots=True)
class StaticPod:
    """The manifest of a static pod with one container."""

    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def container(self) -> dict[str, Any]:
        (only,) = self.manifest["spec"]["containers"]
        return dict(only)

    @property
    def args(self) -> list[str]:
        return list(self.container["args"])

    @property
    def ports(self) -> dict[str, int]:
        """Return the ports of the container by their names."""
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}


def static_pod(name: str) -> StaticPod:
    """Return the static pod of a component, such as ``vpa-updater``."""
    return StaticPod(yaml.safe_load((STATIC_PODS / f"{name}.yaml").read_text("utf-8")))
