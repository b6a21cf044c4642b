"""The metric that names the running version."""

import platform

from prometheus_client import CollectorRegistry, Info

from common.version import version


def expose_build_info(component: str, registry: CollectorRegistry) -> None:
    """Register ``vpa_<component>_build_info``, whose value is always 1."""
    info = Info(
        f"vpa_{component}_build",
        "Versions of the program and of Python; the value is always 1.",
        registry=registry,
    )
    info.info({"version": version(), "python_version": platform.python_version()})
