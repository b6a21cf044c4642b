"""What ``kubectl vpa top`` prints."""

from kubectl_vpa.results.lists import Result


class UsageResult(Result, frozen=True, kw_only=True):
    """The usage of a resource beside its request and recommendation.

    The amounts are those of one pod: the mean of the pods, unless ``pod`` names one.
    """

    namespace: str
    vpa: str
    workload_kind: str
    workload_name: str
    pod: str | None  # null: all pods
    container: str | None  # null: the sum of the containers
    pods: int  # whose usage is known
    resource: str  # cpu or memory
    usage: str
    request: str | None
    target: str | None
    lower_bound: str | None
    upper_bound: str | None
    used: float | None  # usage relative to the request: 0.1 is ten percent
