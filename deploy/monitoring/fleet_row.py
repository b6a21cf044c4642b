"""The dashboard's row about all VPAs: what they change, and what they can't."""

from panel import RATE, Panel, Query, Row, one


def _balance(resource: str) -> tuple[Query, ...]:
    return tuple(
        Query(expr=f'sum(vpa_recommender_requests_{part}{{resource="{resource}"}})', legend=legend)
        for part, legend in (
            ("given_back", "given back"),
            ("added", "added"),
            ("above_target", "above target"),
            ("below_target", "lacking"),
        )
    )


def _namespaces(resource: str) -> tuple[Query, ...]:
    return tuple(
        Query(
            expr=f"topk(5, sum by (vpa_namespace) "
            f'(vpa_recommender_requests_{part}{{resource="{resource}"}}))',
            legend=f"{legend}: {{{{vpa_namespace}}}}",
        )
        for part, legend in (("above_target", "above target"), ("below_target", "lacking"))
    )


FLEET = Row(
    title="Fleet",
    panels=(
        Panel(
            title="VPAs",
            kind="stat",
            width=4,
            queries=(
                Query(expr="sum(vpa_recommender_vpa_objects_count)", legend="VPAs"),
                Query(
                    expr='sum(vpa_recommender_vpa_objects_count{has_recommendation="true"})',
                    legend="with recommendation",
                ),
            ),
        ),
        Panel(
            title="VPAs by mode",
            width=6,
            queries=one(
                "sum by (update_mode) (vpa_recommender_vpa_objects_count) > 0", "{{update_mode}}"
            ),
        ),
        Panel(
            title="VPAs without a recommendation",
            about="By cause: no pods, or a configuration that isn't supported.",
            width=6,
            queries=one(
                "sum by (matches_pods, unsupported_config) "
                '(vpa_recommender_vpa_objects_count{has_recommendation="false"})',
                "pods: {{matches_pods}}, unsupported: {{unsupported_config}}",
            ),
        ),
        Panel(
            title="Attention",
            kind="stat",
            queries=(
                Query(
                    expr="count(vpa_updater_evictions_suspended) or vector(0)",
                    legend="VPAs with suspended evictions",
                ),
                Query(expr="sum(vpa_updater_blocked_pods) or vector(0)", legend="blocked pods"),
                Query(
                    expr="sum(increase(vpa_recommender_oom_after_downsize_total[1d])) or vector(0)",
                    legend="OOM kills after a downsize (1 day)",
                ),
            ),
        ),
        Panel(
            title="CPU requests",
            about="Given back and added: less and more than in the pod templates. Above target and "
            "lacking: more and less than recommended.",
            unit="cores",
            width=6,
            queries=_balance("cpu"),
        ),
        Panel(
            title="Memory requests",
            about="As for CPU.",
            unit="bytes",
            width=6,
            queries=_balance("memory"),
        ),
        Panel(
            title="CPU by namespace",
            about="The five namespaces with most CPU above and below the target.",
            unit="cores",
            width=6,
            queries=_namespaces("cpu"),
        ),
        Panel(
            title="Memory by namespace",
            about="The five namespaces with most memory above and below the target.",
            unit="bytes",
            width=6,
            queries=_namespaces("memory"),
        ),
        Panel(
            title="Evictions and resizes",
            queries=(
                Query(
                    expr=f"sum by (update_mode) (increase(vpa_updater_evicted_pods_total{RATE}))",
                    legend="evicted, {{update_mode}}",
                ),
                Query(
                    expr=f"sum(increase(vpa_updater_in_place_updated_pods_total{RATE}))",
                    legend="resized",
                ),
            ),
        ),
        Panel(
            title="Pods to be evicted or resized, by reason",
            about="Of each pass. docs/reasons.md explains the reasons.",
            queries=one(
                "sum by (decision, reason) "
                '(vpa_updater_candidate_pods{decision=~"evict|resize"}) > 0',
                "{{decision}}: {{reason}}",
            ),
        ),
        Panel(
            title="Failed evictions and resizes, by reason",
            queries=one(
                "sum by (reason) (increase("
                '{__name__=~"vpa_updater_failed_(eviction|in_place_update)_attempts_total"}'
                f"{RATE}))",
                "{{reason}}",
            ),
        ),
        Panel(
            title="Waiting pods, by reason",
            about="Pods that should change, and what delays the change. docs/reasons.md explains "
            "the reasons.",
            queries=one(
                'sum by (reason) (vpa_updater_candidate_pods{decision="wait"})', "{{reason}}"
            ),
        ),
        Panel(
            title="Blocked pods, by reason",
            about="Pods whose in-place update the kubelet or the API server refuses.",
            queries=one("sum by (reason) (vpa_updater_blocked_pods)", "{{reason}}"),
        ),
        Panel(
            title="OOM kills and replacements",
            queries=(
                Query(
                    expr=f"sum(increase(vpa_recommender_oom_recorded_total{RATE}))",
                    legend="OOM kills",
                ),
                Query(
                    expr=f"sum by (came) (increase(vpa_updater_eviction_outcomes_total{RATE}))",
                    legend="replacement {{came}}",
                ),
            ),
        ),
    ),
)
