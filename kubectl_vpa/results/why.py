"""What ``kubectl vpa why`` prints."""

from kubectl_vpa.results.lists import Result
from kubectl_vpa.results.status import VpaResult


class EventResult(Result, frozen=True, kw_only=True):
    """An Event about the subject of an explanation."""

    time: str
    reason: str
    message: str


class Explanation(Result, frozen=True, kw_only=True):
    """Why a VPA, a pod or a workload has its state; every text is one or more sentences."""

    subject: str  # such as ``Pod shop/web-1``
    status: VpaResult | None  # null if no VPA is concerned
    wanted: str
    because: str
    remedy: str  # what would change the state; empty if nothing has to
    command: str  # what to run; may be empty
    events: tuple[EventResult, ...] = ()
    history: str = ""  # what the recommender's numbers rest on; empty if it is not known
