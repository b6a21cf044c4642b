"""What ``kubectl vpa doctor`` prints."""

import enum

from kubectl_vpa.results.lists import Result


class Severity(enum.StrEnum):
    """The severity of a finding, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    SKIPPED = "skipped"  # the check could not be made
    OK = "ok"


class Finding(Result, frozen=True, kw_only=True):
    """The result of a check, about one object or about the cluster."""

    check: str
    severity: Severity
    about: str  # an object, such as a namespace and a name; may be empty
    message: str
    remedy: str  # what to do; empty if nothing has to be done
