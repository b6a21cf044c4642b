"""What ``kubectl vpa export --as recommendations`` prints."""

from collections.abc import Mapping

from kubectl_vpa.results.lists import Result


class RecommendationResult(Result, frozen=True, kw_only=True):
    """The recommendation of one container, as quantities by resource."""

    namespace: str
    name: str  # of the VPA
    workload_kind: str
    workload_name: str
    container: str
    target: Mapping[str, str]
    lower_bound: Mapping[str, str]
    upper_bound: Mapping[str, str]
    uncapped_target: Mapping[str, str]
