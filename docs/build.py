# ruff: noqa: INP001 - a script, not a package
"""Writes docs/flags.md, docs/metrics.md and docs/reasons.md from the code: ``make docs``.

The settings classes and the metrics registries are the source; the lists of the reference in
tests/golden/data tell what is ours beyond it. What a declaration can't say (values of labels,
flags that wait for their feature) stands in tables here; tests/unit/test_docs.py keeps them true.
"""

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

import admission.metrics
import admission.settings
import certs.settings
import controlplane.settings
import demo.settings
import recommender.metrics
import recommender.settings
import sandbox.metrics_server.settings
import sandbox.settings
import updater.metrics
import updater.settings
from admission.metrics import AskedGauge, Outcome, Step
from admission.review import Subject
from common.api.autoscaling import UpdateMode
from common.features import FeatureGates
from common.flags import ACCEPTED_WITHOUT_EFFECT, declared, show
from common.runtime.settings import CommonSettings, LeaderElectionSettings
from recommender.collectors import BatchHistogram, PlainCounter
from recommender.metrics import RequestSource
from recommender.model.oom_outcome import OomOutcome
from updater.decision import Action, Reason
from updater.sighting import Sighting

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER.parent / "tests" / "golden" / "data"
COMMAND = "make docs"
OURS = "ours"

Row = Sequence[str]
Flag = dataclasses.Field[Any]

# The reference's name of each component that it has, too.
COMPONENTS: Mapping[str, str] = {
    "recommender": "recommender",
    "updater": "updater",
    "admission": "admission-controller",
}
PROGRAMS: Mapping[str, type] = {
    "recommender": recommender.settings.Settings,
    "updater": updater.settings.Settings,
    "admission": admission.settings.Settings,
    "certs": certs.settings.Settings,
    "sandbox": sandbox.settings.Settings,
    "sandbox.metrics_server": sandbox.metrics_server.settings.Settings,
    "controlplane": controlplane.settings.Settings,
    "demo": demo.settings.Settings,
}
GATES: Mapping[str, str] = {
    "CPUStartupBoost": "`spec.startupBoost`: more CPU while a pod starts.",
    "InPlace": "The update mode `InPlace`: resize running pods, never evict them.",
    "PerVPAConfig": "Per VPA instead of by flag: `evictAfterOOMSeconds`, `oomBumpUpRatio`, "
    "`oomMinBumpUp`, `memoryAggregationIntervalSeconds` and `memoryAggregationIntervalCount`.",
}

FLAGS = """\
Flags are written with one or two dashes, and underscores count as dashes. A Boolean is `--x`,
`--x=true` or `--x=false`. Durations are Go's: `90s`, `1h30m`. A flag that can't be used is one
line on standard error and exit code 2.

Names and defaults are the reference's. A flag of origin *ours* is unknown to the reference.
"""
COMMON = """\
## All three components

recommender, updater and admission have these.
"""
FEATURE_GATES = """\
### Feature gates

All are off by default. `AllAlpha` sets every gate that is not named itself. `AllBeta`, and
`InPlaceOrRecreate` of old manifests, change nothing.
"""
KLOG = """\
### klog's flags

Manifests written for the reference pass them. They are accepted and have no effect: log lines go
to standard error.
"""
ELECTION = """\
## Leader election

recommender and updater have these, and each its own `--leader-elect-resource-name`.
"""
METRICS = """\
Each component serves its metrics at `/metrics` on its ops address, as Prometheus text or as
OpenMetrics. Names, labels and buckets are the reference's. A metric of origin *ours* is unknown
to the reference. A counter *as untyped* has a name that does not end in `_total`, and the text
formats allow that for no typed counter. Each component also serves the client library's
`process_*` and `python_*` metrics. With admission's `--workers` above 1 these are of the first
worker, and counters and histograms are sums over all workers.
"""
REASONS = """\
In each pass the updater decides about each pod that a VPA controls: `evict`, `resize`, `wait` (it
should change, and something holds that up) or `leave` (it need not change, or must not). The reason
for it is one of this list. There are four places to meet it:

- the log: `pod decided`, once for each change, with `until` where the time is known before which
  nothing changes by itself. That a pod needs nothing is told with `--v=5`;
- Events: in brackets at the end of the message, as in `[outside_range]`;
- metrics: the label `reason` of `vpa_updater_candidate_pods`;
- `GET /debug/plan`: what the next pass would decide about each pod, see
  [operations.md](operations.md#why-does-the-updater-touch-this-pod-or-not).
"""
OOMS = """\
## OOM kills

Each kill is told once: by its pod, whose every version is looked at, the first and the last
included, or by the Event of an eviction. It counts as seen when it is known what becomes of it, so
at every scrape

    vpa_recommender_oom_seen_total = vpa_recommender_oom_recorded_total
                                     + sum(vpa_recommender_oom_discarded_total)

It is discarded for one of these reasons; each has a series from the start.
"""
MISSING = "## Metrics of the reference that are not exposed\n"


def table(head: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; pipes in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def reference(kind: str) -> dict[str, dict[str, dict[str, Any]]]:
    """What the reference has, by its component and name; ``kind`` is flags or metrics."""
    content = json.loads((DATA / f"{kind}.json").read_text(encoding="utf-8"))
    return {entry["component"]: {item["name"]: item for item in entry[kind]} for entry in content}


# Flags


def flags_page() -> str:
    """The content of docs/flags.md."""
    shared = {field.name for field in declared(CommonSettings)}
    electing = {field.name for field in declared(LeaderElectionSettings)}
    known = {name for flags in reference("flags").values() for name in flags}
    gates = ((f"`{name}`", GATES[name]) for name in _gates())
    klog = ((f"`{name}`", _code(text)) for name, text in ACCEPTED_WITHOUT_EFFECT.items())
    parts = [_title("Flags"), FLAGS]
    parts += [COMMON, _flag_table(declared(CommonSettings), known)]
    parts += [FEATURE_GATES, table(("gate", "what it switches on"), gates)]
    parts += [KLOG, table(("flag", "the reference's default"), klog)]
    parts += [ELECTION, _flag_table(declared(LeaderElectionSettings), known)]
    for program, settings in PROGRAMS.items():
        fields = list(declared(settings))
        parts.append(f"## {program}\n")
        if program not in COMPONENTS:
            about = (inspect.getdoc(settings) or "").partition("\n")[0]
            parts += [f"{about} See `python -P -m {program} --help`.\n", _flag_table(fields, None)]
            continue
        own = [field for field in fields if field.name not in shared | electing]
        parts.append(_flag_table(own, known))
    return "\n".join(parts)


def _title(title: str) -> str:
    return f"# {title}\n\n<!-- Made by `{COMMAND}` from the code. Don't edit. -->\n"


def _gates() -> list[str]:
    on = str(FeatureGates.parse("AllAlpha=true"))
    return [gate.partition("=")[0] for gate in on.split(",")]


def _flag_table(fields: Iterable[Flag], known: set[str] | None) -> str:
    """``known`` are the reference's names; None: there is nothing to compare with."""
    head = ("flag", "default", "meaning", *(() if known is None else ("origin",)))
    return table(head, (_flag_row(field, known) for field in fields))


def _flag_row(field: Flag, known: set[str] | None) -> Row:
    name, short, env = (field.metadata[key] for key in ("flag", "short", "env"))
    written = f"`{short}`, `{name}`" if short else f"`{name}`"
    meaning = field.metadata["help"].replace("<", "&lt;")
    row = (
        written,
        _code(show(field.default)),
        f"{meaning} Environment: `{env}`." if env else meaning,
    )
    if known is None:
        return row
    return (*row, "" if name.removeprefix("--") in known else OURS)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


# Metrics


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """A metric as a scraper sees it."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


def registries() -> dict[str, CollectorRegistry]:
    """A fresh registry of each component."""
    updating, admitting = CollectorRegistry(), CollectorRegistry()
    updater.metrics.Metrics(updating)
    admission.metrics.Metrics(admitting)
    return {
        "recommender": recommender.metrics.Metrics().registry,
        "updater": updating,
        "admission": admitting,
    }


def exposed(registry: CollectorRegistry) -> list[Exposed]:
    """The metrics of a registry, in the order of their registration."""
    # The library has no public way to ask for collectors, nor for their labels.
    collectors = list(registry._collector_to_names)  # noqa: SLF001 - see above
    return [_exposed(collector) for collector in collectors]


def _exposed(collector: Any) -> Exposed:
    (described,) = collector.describe()
    if isinstance(collector, MetricWrapperBase):
        labels = tuple(collector._labelnames)  # noqa: SLF001 - see ``exposed``
    else:
        assert isinstance(collector, PlainCounter | BatchHistogram | AskedGauge)  # noqa: S101 - for the type checker
        labels = tuple(collector.labels)
    name, kind = described.name, described.type
    return Exposed(
        name=f"{name}_total" if kind == "counter" else name,
        type="counter, as untyped" if isinstance(collector, PlainCounter) else kind,
        labels=labels,
        meaning=described.documentation,
    )


def metrics_page() -> str:
    """The content of docs/metrics.md."""
    known = reference("metrics")
    head = ("metric", "type", "labels", "meaning", "origin")
    parts = [_title("Metrics"), METRICS]
    missing: list[str] = []
    for component, registry in registries().items():
        theirs = known[COMPONENTS[component]]
        metrics = exposed(registry)
        labels = dict.fromkeys(label for metric in metrics for label in metric.labels)
        values = ((f"`{label}`", LABELS[component, label]) for label in labels)
        parts += [f"## {component}\n", table(head, _metric_rows(metrics, theirs))]
        parts.append(table(("label", "values"), values))
        names = {metric.name for metric in metrics}
        missing += [f"- `{name}` ({component})" for name in theirs if name not in names]
    parts += [OOMS, table(("reason", "meaning"), _discards())]
    parts += [MISSING, "\n".join(missing or ("There are none.",)) + "\n"]
    return "\n".join(parts)


def _discards() -> Iterator[Row]:
    for outcome in OomOutcome:
        if outcome is not OomOutcome.RECORDED:
            yield f"`{outcome}`", outcome.meaning


def _metric_rows(metrics: Iterable[Exposed], theirs: Mapping[str, Any]) -> Iterator[Row]:
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        origin = "" if metric.name in theirs else OURS
        yield f"`{metric.name}`", metric.type, labels, metric.meaning, origin


def _values(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


_BOOLEAN = _values(("true", "false"))
_SIZE = "Pods of the VPA as a power of two, rounded down: `0` for none or one, at most `20`."
_MODE = f"As written in the VPA: {_values(UpdateMode)}"

# By component and label.
LABELS: Mapping[tuple[str, str], str] = {
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
    ("recommender", "is_error"): _BOOLEAN,
    ("recommender", "client_name"): "`default-metrics-client`",
    ("recommender", "resource"): _values(("cpu", "memory")),
    ("recommender", "is_oom"): f"Whether an OOM kill is what was observed: {_BOOLEAN}",
    ("recommender", "recommendation_missing"): _BOOLEAN,
    ("recommender", "vpa_size_log2"): _SIZE,
    ("recommender", "kind"): f"What was to be written: {_values(('status', 'checkpoint'))}",
    (
        "recommender",
        "api_resource",
    ): "As in its path, such as `pods`; of usage `pods.metrics.k8s.io`.",
    ("recommender", "reason"): "Of failed writes and reads the API server's word, such as "
    "`Forbidden` or `Expired`, or `Unreachable`; of objects that can't be used "
    f"{_values(('undecodable', 'policy'))}; of "
    "discarded OOM kills see [below](#oom-kills); of checkpoints "
    "see [operations.md](operations.md#checkpoints); "
    "of history Prometheus' word, such as `execution`, or the HTTP status, or "
    f"{_values(('unreachable', 'undecodable', 'no_token'))}.",
    ("recommender", "code"): "The HTTP status.",
    ("recommender", "method"): _values(("post", "get")),
    ("recommender", "scope"): "`cluster`: the one list of everything; `part`: a namespace, or with "
    "external metrics a metric of a pod.",
    ("recommender", "outcome"): "`ok`, or the API server's word, such as `Forbidden`, or "
    "`DecodeError`.",
    ("recommender", "state"): _values(("loaded", "pending")),
    ("recommender", "source"): f"{_values(RequestSource)}; those of init containers are not read, "
    "and stay 0.",
    ("updater", "vpa_size_log2"): _SIZE,
    ("updater", "update_mode"): _values(UpdateMode),
    ("updater", "vpa_name"): "The VPA.",
    ("updater", "vpa_namespace"): "The VPA's.",
    ("updater", "step"): _values(
        ("ListVPAs", "ListPods", "FilterPods", "AdmissionInit", "EvictPods", "total")
    ),
    ("updater", "decision"): _values(Action),
    ("updater", "came"): _values(Sighting),
    ("updater", "reason"): "Of evictions `EvictionError`, `EvictionRateLimiterWaitFailed`; of "
    "resizes `InPlaceUpdateError`, `InPlaceUpdateInfeasible`, `UnboostError`, "
    "`InPlaceUpdateRateLimiterWaitFailed`; of candidates one of [reasons.md](reasons.md).",
    ("admission", "result"): _values(("right", "wrong")),
    ("admission", "applied"): f"Whether the pod got a patch: {_BOOLEAN}",
    ("admission", "status"): _values(dict.fromkeys(outcome.status for outcome in Outcome)),
    ("admission", "resource"): _values(Subject),
    ("admission", "step"): _values(Step),
    ("admission", "outcome"): _values(Outcome),
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
}


def reasons_page() -> str:
    """The content of docs/reasons.md."""
    parts: dict[str, list[Row]] = {}
    for reason in Reason:
        if reason in PARTS:
            rows = parts.setdefault(PARTS[reason], [])
        rows.append((f"`{reason}`", _meaning(reason), UNTIL.get(reason, "")))
    head = ("reason", "meaning", "until, where known")
    told = (f"## {part}\n\n{table(head, rows)}" for part, rows in parts.items())
    return "\n".join((_title("Reasons of the updater"), REASONS, *told))


def _meaning(reason: Reason) -> str:
    return re.sub(r"--[a-z-]+[a-z]", r"`\g<0>`", reason.meaning)


PAGES = {"flags.md": flags_page, "metrics.md": metrics_page, "reasons.md": reasons_page}


def main() -> int:
    """Write the pages; the exit code."""
    for name, content in PAGES.items():
        (FOLDER / name).write_text(content(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
