"""The results of the calls that carry a plan out."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from common.api.core import Pod
from common.errors import DecodeError, KubeError
from updater.decision import Decision


@dataclass(frozen=True, slots=True)
class Accepted:
    """The API server accepted the call; ``pod`` is the one in its answer."""

    at: datetime
    pod: Pod


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server refused the call, or did not answer."""

    at: datetime
    error: KubeError


@dataclass(frozen=True, slots=True)
class Tried:
    """The answer to a dry run: the pod as it would be stored, or the error."""

    answer: Pod | KubeError | DecodeError


@dataclass(frozen=True, slots=True)
class NotSent:
    """Nothing was sent; ``decision`` has the reason."""

    decision: Decision


CallResult: TypeAlias = Accepted | Refused | Tried | NotSent
