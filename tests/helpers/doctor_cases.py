"""What ``kubectl vpa doctor`` has to find in an installation that a test has broken."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Self

from cli_installation import CliInstallation
from cli_program import Printed, call_command
from kubectl_vpa.results.doctor import Severity

_SKIPPED_HERE = {"rbac"}  # the sandbox has no roles

Break = Callable[[CliInstallation], Awaitable[None]]


class Found(NamedTuple):
    """A finding; in an expectation its message is a pattern."""

    severity: Severity
    check: str
    about: str
    message: str

    def matches(self, found: "Found") -> bool:
        """Return True if this expectation describes a finding."""
        return self[:3] == found[:3] and fnmatchcase(found.message, self.message)


def error(check: str, about: str, message: str) -> Found:
    return Found(Severity.ERROR, check, about, message)


def warning(check: str, about: str, message: str) -> Found:
    return Found(Severity.WARNING, check, about, message)


def skipped(check: str, message: str) -> Found:
    return Found(Severity.SKIPPED, check, "", message)


NOT_PATCHED = error("dry-run", "VPA shop/web", "a new pod would not be patched")


@dataclass(frozen=True)
class Case:
    """A way to break an installation, and all that the doctor then finds."""

    id: str
    broken: Break
    want: tuple[Found, ...]
    start: Mapping[str, Any]  # of the installation

    @classmethod
    def of(cls, id: str, broken: Break, *want: Found, **start: Any) -> Self:
        return cls(id, broken, want, start)

    @property
    def code(self) -> int:
        """Return the exit code for the worst finding."""
        return 1 if any(each.severity is Severity.ERROR for each in self.want) else 3


async def diagnosed(installation: CliInstallation) -> tuple[Printed, list[Found]]:
    """Return what the doctor prints, and what it finds wrong or skips, except here always."""
    printed = await call_command(installation.cluster.kubeconfig, "doctor", "-o", "json")
    found = [
        Found(Severity(each["severity"]), each["check"], each["about"], each["message"])
        for each in printed.items
    ]
    return printed, [
        each
        for each in found
        if each.severity is not Severity.OK
        and not (each.severity is Severity.SKIPPED and each.check in _SKIPPED_HERE)
    ]


async def verify(case: Case, installation: CliInstallation) -> None:
    """Break an installation; fail unless the doctor finds this only."""
    await case.broken(installation)
    printed, found = await diagnosed(installation)
    unexpected = [one for one in found if not any(each.matches(one) for each in case.want)]
    absent = [each for each in case.want if not any(each.matches(one) for one in found)]
    assert (unexpected, absent) == ([], [])
    assert printed.code == case.code
