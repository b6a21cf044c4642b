"""The dashboard's row about the components: cycles, caches, API calls and the webhook."""

from panel import COMPONENTS, OURS, RATE, Panel, Query, Row, one


def _seconds_since_success() -> tuple[Query, ...]:
    return tuple(
        Query(
            expr=f"time() - max by (job) "
            f"(vpa_{component}_last_successful_cycle_timestamp_seconds > 0)",
            legend="{{job}}",
        )
        for component in ("recommender", "updater")
    )


def _mean_steps() -> tuple[Query, ...]:
    return tuple(
        Query(
            expr=f"sum by (job, step) (rate(vpa_{component}_execution_latency_seconds_sum{RATE}))"
            f" / sum by (job, step) "
            f"(rate(vpa_{component}_execution_latency_seconds_count{RATE})) > 0",
            legend="{{job}} {{step}}",
        )
        for component in ("recommender", "updater")
    )


def _quantiles(metric: str, by: str, legend: str, *, ours: str = "") -> tuple[Query, ...]:
    """Return the median and the 99th percentile of a histogram."""
    return tuple(
        Query(
            expr=f"histogram_quantile({quantile}, sum by (le, {by}) "
            f"(rate({metric}_bucket{RATE}) {ours}))",
            legend=f"{legend} p{round(100 * quantile)}",
        )
        for quantile in (0.5, 0.99)
    )


HEALTH = Row(
    title="Health",
    panels=(
        Panel(
            title="Leaders",
            about="Replicas that act. It is 1 for each component.",
            kind="stat",
            width=4,
            queries=one(
                'sum by (job) ({__name__=~"vpa_(recommender|updater)_leading"})', "{{job}}"
            ),
        ),
        Panel(
            title="Webhook registered",
            about="1 if the configuration is as the flags of admission define it.",
            kind="stat",
            width=4,
            queries=one(
                "max by (configuration) (vpa_admission_controller_webhook_registered)",
                "{{configuration}}",
            ),
        ),
        Panel(
            title="Days until certificates expire",
            kind="stat",
            width=4,
            queries=one(
                "min by (certificate) "
                "(vpa_admission_controller_certificate_remaining_seconds) / 86400",
                "{{certificate}}",
            ),
        ),
        Panel(
            title="Versions",
            kind="stat",
            width=12,
            queries=one(
                f'count by (job, version) ({{__name__=~"{COMPONENTS}_build_info"}})',
                "{{job}} {{version}}",
            ),
        ),
        Panel(
            title="Time since the last successful cycle",
            unit="s",
            width=6,
            queries=_seconds_since_success(),
        ),
        Panel(
            title="Duration of cycles by step",
            unit="s",
            width=6,
            queries=_mean_steps(),
        ),
        Panel(
            title="Age of the newest usage",
            unit="s",
            width=6,
            queries=one("max by (job) (vpa_recommender_usage_age_seconds)", "{{job}}"),
        ),
        Panel(
            title="Age of caches",
            about="API servers send something about once a minute.",
            unit="s",
            width=6,
            queries=one(
                f'max by (job, api_resource) ({{__name__=~"{COMPONENTS}_cache_age_seconds"}})',
                "{{job}} {{api_resource}}",
            ),
        ),
        Panel(
            title="API calls by code",
            unit="reqps",
            width=6,
            queries=one(
                f"sum by (job, code) (rate(rest_client_requests_total{RATE}) {OURS})",
                "{{job}} {{code}}",
            ),
        ),
        Panel(
            title="API calls by verb and resource",
            unit="reqps",
            width=6,
            queries=one(
                "sum by (method, api_resource) "
                f"(rate(rest_client_requests_total{RATE}) {OURS}) > 0",
                "{{method}} {{api_resource}}",
            ),
        ),
        Panel(
            title="Duration of API calls",
            unit="s",
            width=6,
            queries=_quantiles(
                "rest_client_request_duration_seconds", "job, verb", "{{job}} {{verb}}", ours=OURS
            ),
        ),
        Panel(
            title="Waits for the own rate limit",
            about="On average for a request. Raise --kube-api-qps and --kube-api-burst if it is "
            "more than a second.",
            unit="s",
            width=6,
            queries=one(
                "sum by (job) (rate(rest_client_rate_limiter_duration_seconds_sum"
                f"{RATE}) {OURS}) / sum by (job) "
                f"(rate(rest_client_rate_limiter_duration_seconds_count{RATE}))",
                "{{job}}",
            ),
        ),
        Panel(
            title="Reviews by outcome",
            unit="reqps",
            width=6,
            queries=one(
                f"sum by (resource, outcome) (rate(vpa_admission_controller_reviews_total{RATE}))",
                "{{resource}} {{outcome}}",
            ),
        ),
        Panel(
            title="Duration of reviews",
            unit="s",
            width=6,
            queries=_quantiles(
                "vpa_admission_controller_admission_latency_seconds", "resource", "{{resource}}"
            ),
        ),
        Panel(
            title="Self-checks of admission",
            unit="reqps",
            width=6,
            queries=one(
                f"sum by (result) (rate(vpa_admission_controller_self_checks_total{RATE}))",
                "{{result}}",
            ),
        ),
        Panel(
            title="Memory of the processes",
            unit="bytes",
            width=6,
            queries=one(
                f"max by (job, instance) (process_resident_memory_bytes {OURS})",
                "{{job}} {{instance}}",
            ),
        ),
    ),
)
