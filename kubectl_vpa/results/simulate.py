"""What ``kubectl vpa simulate`` prints."""

from collections.abc import Mapping

from kubectl_vpa.results.lists import Result, ResultList


class NowAndSimulated(Result, frozen=True, kw_only=True):
    """A number with the present settings and with the simulated ones, as quantities."""

    now: str | None
    simulated: str | None


class SimulatedNumbers(Result, frozen=True, kw_only=True):
    """One resource of a container with other settings."""

    namespace: str
    name: str  # of the VPA
    workload_kind: str
    workload_name: str
    container: str
    resource: str
    target: NowAndSimulated
    lower_bound: NowAndSimulated
    upper_bound: NowAndSimulated
    change: float | None  # of the target, relative: 0.5 means half as much again
    pods: int | None  # null if they could not be read
    difference: str | None  # of the targets of all pods, as a quantity


class SimulatedTotal(Result, frozen=True, kw_only=True):
    """The targets of all pods together, as quantities."""

    resource: str
    now: str
    simulated: str
    difference: str
    change: float | None


class SimulationList(ResultList, frozen=True, kw_only=True):
    """The numbers with other settings, and the sums over the present pods."""

    settings: Mapping[str, str]  # that were changed, as flags
    flags_of: str | None  # the pod whose flags apply otherwise; null: the defaults are assumed
    totals: tuple[SimulatedTotal, ...]
