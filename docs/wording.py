"""What the generated pages of docs/ say besides what stands in the code.

Texts, what the values of labels mean, and until when reasons hold; tests/unit/test_docs.py keeps
them true.
"""

from collections.abc import Iterable, Mapping

from admission.metrics import ReviewOutcome, ReviewStep
from admission.review import ReviewSubject
from common.api.autoscaling import UpdateMode
from recommender.model.pods import RequestSource
from updater.decision import Action, Reason
from updater.eviction.replacement_result import ReplacementResult

GATES: Mapping[str, str] = {
    "CPUStartupBoost": "`spec.startupBoost`: more CPU while a pod starts.",
    "InPlace": "The update mode `InPlace`: resize running pods, never evict them.",
    "NativeSidecar": "Native sidecars (init containers with `restartPolicy: Always`) are scaled as "
    "containers are; set it on all three components.",
    "PerVPAConfig": "Per VPA instead of by flag: `evictAfterOOMSeconds`, `oomBumpUpRatio`, "
    "`oomMinBumpUp`, `memoryAggregationIntervalSeconds` and `memoryAggregationIntervalCount`.",
}

FLAGS = """\
Write flags with two dashes; underscores count as dashes. The level of the log is also `-v4`, `-v=4`
or `-v 4`. A Boolean is `--x`, `--x=true` or `--x=false`. Durations have Go's form: `90s`, `1h30m`.
If a flag is wrong, the program prints one line to standard error and ends with exit code 2.

The three components ignore positional arguments, and log one warning that names them. The second
word of `--leader-elect false` is one: leader election is on. The other programs refuse them.

Names and defaults are the reference's. A flag of origin *ours* is unknown to the reference. Flags
are grouped as in `--help`. Every program also has `--help` and `--version`.
"""
COMMON = """\
## All three components

recommender, updater and admission have these flags.
"""
FEATURE_GATES = """\
### List of feature gates

All gates are off by default. `AllAlpha` sets every gate that the flag does not name. `AllBeta`, and
`InPlaceOrRecreate` of old manifests, change nothing.
"""
KLOG = """\
### klog's flags

Manifests written for the reference pass these flags. They are accepted and have no effect: log
lines go to standard error.
"""
ELECTION = """\
## Leader election

recommender and updater have these flags, and each has its own `--leader-elect-resource-name`.
"""
METRICS = """\
Each component serves its metrics at `/metrics` on its ops address, in Prometheus' text format.
Names, labels and buckets are the reference's, and so is the text of a bucket's bound (`le="1"`,
`le="1e+06"`); a Prometheus from version 3 on stores `1.0` for both implementations. A metric of
origin *ours* is unknown to the reference. A counter *as untyped* has a name that does not end in
`_total`; the client library exposes such names for untyped metrics only. Each component also
serves the client library's `process_*` and `python_*` metrics.
"""
REASONS = """\
In each pass the updater decides about each pod that a VPA controls: `evict`, `resize`, `wait` (the
pod should change, and something delays the change) or `leave` (the pod need not change, or must
not). This page lists the reasons. A reason is reported in six places:

- the log: `pod decided`, once for each change, with the VPA, the wanted change (`changes`), and
  `until` if it is known when the decision can change without another event. Decisions without need
  for a change are logged with `--v=5`;
- Events: in brackets behind the sentence, followed by the VPA and the change, as in
  `[outside_range] (VPA web; app cpu 100m -> 250m, memory 128Mi -> 256Mi)`, see
  [events.md](events.md#what-is-reported-of-a-change);
- metrics: the label `reason` of `vpa_updater_candidate_pods`;
- `GET /debug/plan`: the decision of the next pass about each pod, see
  [debugging.md](debugging.md#why-does-the-updater-touch-this-pod-or-not);
- `GET /api/v1/plan`: the decision of the last pass about each pod, the time since which it stands,
  and what would unblock the pod, see [read-api.md](read-api.md#the-plan);
- [`kubectl vpa plan`](kubectl-vpa.md#plan) and `why`: in words, and in JSON by its name.
"""
OOMS = """\
## OOM kills

Each kill is counted once, from its pod or from the Event of an eviction. The first and the last
version of a pod are read as well. A kill counts as seen when it is recorded or discarded, so at
every scrape

```text
vpa_recommender_oom_seen_total = vpa_recommender_oom_recorded_total
                                 + sum(vpa_recommender_oom_discarded_total)
```

A kill that is ahead of the recommender's clock by more than two minutes is postponed until the
clock has reached its time or is corrected; `vpa_recommender_ooms_postponed` counts these kills.

A kill is discarded for one of these reasons. Each reason has a series from the start.
"""
MISSING = "## Metrics of the reference that are not exposed\n"


def _values(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


_HTTP_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_API_RESOURCE = (
    "As in its path, such as `pods` or `pods/eviction`; of usage `pods.metrics.k8s.io`; `other`: "
    "kinds that only users name, and paths without a resource."
)
_BOOLEAN = _values(("true", "false"))
_SIZE = "Pods of the VPA as a power of two, rounded down: `0` for none or one, at most `20`."
_MODE = f"As written in the VPA: {_values(UpdateMode)}"

# By component and label.
LABELS: Mapping[tuple[str, str], str] = {
    **{
        (component, label): text
        for component in ("recommender", "updater", "admission")
        for label, text in (
            ("version", "Of the component, such as `0.1.0`."),
            ("python_version", "Such as `3.11.7`."),
            ("api_resource", _API_RESOURCE),
            ("code", "The HTTP status, or `<error>` if there was no answer."),
            ("verb", _values(_HTTP_METHODS)),
            ("method", _values(_HTTP_METHODS)),
        )
    },
    ("recommender", "update_mode"): f"{_MODE}. Without a mode `Recreate`, in `vpa_quality_*` "
    "empty.",
    ("recommender", "has_recommendation"): _BOOLEAN,
    ("recommender", "api"): f"{_values(('v1', 'v1beta2', 'v1beta1'))}; only `v1` is ever above 0.",
    ("recommender", "matches_pods"): _BOOLEAN,
    ("recommender", "unsupported_config"): f"Condition ConfigUnsupported: {_BOOLEAN}",
    ("recommender", "step"): _values(
        (
            *("LoadVPAs", "LoadPods", "LoadMetrics", "DeleteRemovedPods", "UpdateVPAs"),
            *("MaintainCheckpoints", "GarbageCollect", "total"),
        )
    ),
    ("recommender", "stage"): _values(
        ("watch", "pod", "resolve", "vpa", "checkpoint", "oom", "recommend", "write", "namespace")
    ),
    ("recommender", "is_error"): _BOOLEAN,
    ("recommender", "client_name"): "`default-metrics-client`",
    ("recommender", "resource"): _values(("cpu", "memory")),
    ("recommender", "is_oom"): f"Whether an OOM kill is what was observed: {_BOOLEAN}",
    ("recommender", "recommendation_missing"): _BOOLEAN,
    ("recommender", "vpa_size_log2"): _SIZE,
    ("recommender", "vpa_name"): "The VPA.",
    ("recommender", "vpa_namespace"): "The VPA's.",
    ("recommender", "container_name"): "As in the VPA's recommendation.",
    ("recommender", "kind"): f"What was to be written: {_values(('status', 'checkpoint', 'vpa'))}",
    ("recommender", "reason"): "Of failed writes and reads the API server's word, such as "
    "`Forbidden` or `Expired`, or `Unreachable`; of objects that can't be used "
    f"{_values(('undecodable', 'policy'))}; of "
    "discarded OOM kills see [below](#oom-kills); of checkpoints "
    "see [checkpoints.md](checkpoints.md#conflicts); "
    "of history Prometheus' word, such as `execution`, or the HTTP status, or "
    f"{_values(('unreachable', 'undecodable', 'too_large', 'no_token'))}.",
    ("recommender", "method"): f"{_values(_HTTP_METHODS)}; of Prometheus "
    f"{_values(('post', 'get'))}.",
    ("recommender", "scope"): "`cluster`: the one list of everything; `part`: a namespace, or with "
    "external metrics a metric of a pod.",
    ("recommender", "outcome"): "`ok`, or the API server's word, such as `Forbidden`, or "
    "`DecodeError`.",
    ("recommender", "state"): f"Of history {_values(('loaded', 'pending'))}; of namespaces "
    f"{_values(('valid', 'invalid'))}.",
    ("recommender", "action"): _values(("created", "updated", "deleted")),
    ("recommender", "source"): f"{_values(RequestSource)}; of init containers only native sidecars "
    "are read, and only with the gate `NativeSidecar`.",
    ("updater", "stage"): _values(
        ("watch", "resolve", "match", "freeze", "judge", "plan", "unboost", "resize", "evict")
    ),
    ("updater", "vpa_size_log2"): _SIZE,
    ("updater", "update_mode"): _values(UpdateMode),
    ("updater", "vpa_name"): "The VPA.",
    ("updater", "vpa_namespace"): "The VPA's.",
    ("updater", "step"): _values(
        ("ListVPAs", "ListPods", "FilterPods", "AdmissionInit", "EvictPods", "total")
    ),
    ("updater", "decision"): _values(Action),
    ("updater", "came"): _values(ReplacementResult),
    ("updater", "reason"): "Of evictions `EvictionError`, `EvictionRateLimiterWaitFailed`; of "
    "resizes `InPlaceUpdateError`, `InPlaceUpdateInfeasible`, `UnboostError`, "
    "`InPlaceUpdateRateLimiterWaitFailed`; of candidates and blocked pods one of "
    "[reasons.md](reasons.md).",
    ("admission", "result"): _values(("right", "wrong")),
    ("admission", "applied"): f"Whether the pod got a patch: {_BOOLEAN}",
    ("admission", "status"): _values(dict.fromkeys(outcome.status for outcome in ReviewOutcome)),
    ("admission", "resource"): _values(ReviewSubject),
    ("admission", "step"): _values(ReviewStep),
    ("admission", "outcome"): _values(ReviewOutcome),
    ("admission", "configuration"): "Its name, `vpa-webhook-config`.",
    ("admission", "certificate"): "`serving`: what is shown; `authority`: what signed that.",
}

# Reasons

# Where a part of the list begins; Reason is sorted by parts.
PARTS: Mapping[Reason, str] = {
    Reason.OUTSIDE_RANGE: "Worth an update",
    Reason.RESIZE_INFEASIBLE: "In place did not work",
    Reason.NO_CHANGE: "Not worth an update",
    Reason.NO_CONTROLLER: "Held up",
    Reason.QUOTA_EXCEEDED: "Tried without success",
    Reason.RESIZE_SENT: "Done",
}
_DEFERRED = "`--in-place-deferred-timeout` after the resize began, unless the mode is `InPlace`"
_BACK_OFF = "the next try: an interval later, then two, and so on up to thirty-two"
UNTIL: Mapping[Reason, str] = {
    Reason.TOO_YOUNG: "`--in-recommendation-bounds-eviction-lifetime-threshold` after its start "
    "or its last resize",
    Reason.RESIZE_DEFERRED: _DEFERRED,
    Reason.RESIZE_ERROR: _DEFERRED,
    Reason.RESIZE_UNKNOWN: _DEFERRED,
    Reason.RESIZE_IN_PROGRESS: "`--in-place-in-progress-timeout` after the resize began, unless "
    "the mode is `InPlace`",
    Reason.STARTUP_BOOSTED: "the boost's `durationSeconds` after the pod became Ready",
    Reason.QUOTA_EXCEEDED: _BACK_OFF,
    Reason.RESIZE_REFUSED: f"{_BACK_OFF}, in mode `InPlace`",
    Reason.RESIZE_RETRY: f"after more than three in a row {_BACK_OFF}, in mode `InPlace`",
    Reason.ACTUATION_SUSPENDED: "the next probe",
    Reason.CAPACITY_REQUESTED: "`--capacity-timeout` after the request",
    Reason.CAPACITY_REFUSED: "the next request",
    Reason.REPLACEMENT_WOULD_BE_REFUSED: f"after a refusal in a dry run {_BACK_OFF}",
    Reason.REPLACEMENT_LACKS_RECOMMENDATION: _BACK_OFF,
}
