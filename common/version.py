"""The version of this project, from the metadata of the installed package."""

import functools
import importlib.metadata
import platform
import sys

_UNKNOWN = "0+unknown"  # the checkout isn't installed
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


@functools.cache
def version() -> str:
    """Return the version, such as ``0.1.0``."""
    try:
        return importlib.metadata.version("pyvpa")
    except importlib.metadata.PackageNotFoundError:
        return _UNKNOWN


def user_agent(program: str) -> str:
    """Return the User-Agent header of a program, such as ``vpa-updater/0.1.0``.

    API servers take the part before the slash as the name of the field manager.
    """
    return f"{program}/{version()}"


def version_info(found: str) -> dict[str, str]:
    """Return this version with the field names of an API server's ``/version``."""
    release, _, _ = found.partition("+")
    major, minor, *_ = (*release.split("."), "0")
    machine = platform.machine()
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{found}",
        "platform": f"{sys.platform}/{_GO_NAMES.get(machine, machine)}",
        "pythonVersion": platform.python_version(),
    }
