"""The dashboard's row about one VPA."""

from panel import RATE, Panel, Query, Row

_OF_VPA = 'vpa_namespace="$namespace",vpa_name="$vpa"'


def _container(resource: str) -> tuple[Query, ...]:
    """Return the figures of a VPA's containers, without --container-metrics those of others."""
    found = [
        Query(
            expr=f'vpa_recommender_container_request{{{_OF_VPA},resource="{resource}"}} or on () '
            "avg by (container) (kube_pod_container_resource_requests"
            f'{{namespace="$namespace",pod=~"$vpa-.+",resource="{resource}"}})',
            legend="{{container_name}}{{container}} request",
        )
    ]
    for ours, theirs, legend in (
        ("target", "target", "target"),
        ("lower_bound", "lowerbound", "lower bound"),
        ("upper_bound", "upperbound", "upper bound"),
        ("uncapped_target", "uncappedtarget", "uncapped target"),
    ):
        kube = f"kube_verticalpodautoscaler_status_recommendation_containerrecommendations_{theirs}"
        of_vpa = 'namespace="$namespace",verticalpodautoscaler="$vpa"'
        found.append(
            Query(
                expr=f'vpa_recommender_container_{ours}{{{_OF_VPA},resource="{resource}"}} '
                f'or on () {kube}{{{of_vpa},resource="{resource}"}}',
                legend=f"{{{{container_name}}}}{{{{container}}}} {legend}",
            )
        )
    return tuple(found)


VPA = Row(
    title="VPA $namespace/$vpa",
    panels=(
        Panel(
            title="CPU",
            about="Request, target and bounds. From --container-metrics of the recommender; "
            "without it from kube-state-metrics, whose requests are those of pods with names that "
            "begin with the VPA's.",
            unit="cores",
            width=12,
            queries=_container("cpu"),
        ),
        Panel(
            title="Memory",
            about="As for CPU.",
            unit="bytes",
            width=12,
            queries=_container("memory"),
        ),
        Panel(
            title="Evictions and resizes of this VPA",
            width=12,
            queries=(
                Query(
                    expr=f"sum(increase(vpa_updater_evicted_pods_total{{{_OF_VPA}}}{RATE})) "
                    "or vector(0)",
                    legend="evicted",
                ),
                Query(
                    expr="sum(increase(vpa_updater_in_place_updated_pods_total"
                    f"{{{_OF_VPA}}}{RATE})) or vector(0)",
                    legend="resized",
                ),
            ),
        ),
        Panel(
            title="Blocked pods of this VPA",
            width=12,
            queries=(
                Query(
                    expr=f"sum(vpa_updater_blocked_pods{{{_OF_VPA}}}) or vector(0)",
                    legend="blocked",
                ),
                Query(
                    expr=f"sum(vpa_updater_evictions_suspended{{{_OF_VPA}}}) or vector(0)",
                    legend="evictions suspended",
                ),
            ),
        ),
    ),
)
