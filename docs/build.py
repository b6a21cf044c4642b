"""Generate docs/flags.md, docs/metrics.md and docs/reasons.md from the code: ``make docs``.

The table of values in the README of the chart is made, too.

The settings classes and the metrics registries are the source. The lists of the reference in
tests/golden/data show which flags and metrics are additions. docs/wording.py has the texts that
declarations can't contain, for example the values of labels.
"""

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Info
from prometheus_client.metrics import MetricWrapperBase

import admission.metrics
import admission.settings
import certs.settings
import chart_values
import controlplane.settings
import demo.settings
import recommender.metrics
import recommender.settings
import sandbox.settings
import updater.metrics
import updater.settings
from common.features import FeatureGates
from common.flags import groups, show
from common.runtime.settings import KLOG_FLAGS, CommonSettings, LeaderElectionSettings
from recommender.metric_types import BatchHistogram, PlainCounter, SnapshotGauge
from recommender.model.oom_outcome import OomOutcome
from updater.decision import Reason
from updater.remedies import REMEDIES
from wording import (
    COMMON,
    ELECTION,
    FEATURE_GATES,
    FLAGS,
    GATES,
    KLOG,
    LABELS,
    METRICS,
    MISSING,
    OOMS,
    PARTS,
    REASONS,
    UNTIL,
)

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
    "recommender": recommender.settings.RecommenderSettings,
    "updater": updater.settings.UpdaterSettings,
    "admission": admission.settings.AdmissionSettings,
    "certs": certs.settings.CertsSettings,
    "sandbox": sandbox.settings.Settings,
    "controlplane": controlplane.settings.Settings,
    "demo": demo.settings.Settings,
}


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
    known = {name for flags in reference("flags").values() for name in flags}
    gates = ((f"`{name}`", GATES[name]) for name in _gates())
    klog = ((f"`{name}`", _code(text)) for name, text in KLOG_FLAGS.items())
    (electing,) = groups(LeaderElectionSettings).values()
    parts = [_title("Flags"), FLAGS]
    parts += [COMMON, *_group_tables(CommonSettings, known)]
    parts += [FEATURE_GATES, table(("gate", "what it switches on"), gates)]
    parts += [KLOG, table(("flag", "the reference's default"), klog)]
    parts += [ELECTION, _flag_table(electing, known)]
    shared = {field.name for one in groups(CommonSettings).values() for field in one}
    shared |= {field.name for field in electing}
    for program, settings in PROGRAMS.items():
        about = (inspect.getdoc(settings) or "").partition("\n")[0]
        parts.append(f"## {program}\n\n{about} See `python -P -m {program} --help`.\n")
        if program in COMPONENTS:
            parts += _group_tables(settings, known, shared)
        else:
            parts += _group_tables(settings, None)
    return "\n".join(parts)


def _group_tables(
    settings: type, known: set[str] | None, shared: Collection[str] = ()
) -> Iterator[str]:
    """A table for each group, less the ``shared`` fields."""
    for title, fields in groups(settings).items():
        own = [field for field in fields if field.name not in shared]
        if own:
            yield f"### {title}\n"
            yield _flag_table(own, known)


def _title(title: str) -> str:
    return f"# {title}\n\n<!-- Made by `{COMMAND}` from the code. Don't edit. -->\n"


def _gates() -> list[str]:
    on = str(FeatureGates.parse("AllAlpha=true"))
    return [gate.partition("=")[0] for gate in on.split(",")]


def _flag_table(fields: Iterable[Flag], known: set[str] | None) -> str:
    """``known`` are the reference's names; None: there is nothing to compare with."""
    head = ("flag", "value", "default", "meaning", *(() if known is None else ("origin",)))
    return table(head, (_flag_row(field, known) for field in fields))


def _flag_row(field: Flag, known: set[str] | None) -> Row:
    name, metavar, short, env, alias = (
        field.metadata[key] for key in ("flag", "metavar", "short", "env", "alias")
    )
    written = ", ".join(f"`{one}`" for one in (short, name, alias) if one)
    meaning = field.metadata["help"].replace("<", "&lt;")
    row = (
        written,
        metavar,
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
    updater.metrics.UpdaterMetrics(updating)
    admission.metrics.AdmissionMetrics(admitting)
    return {
        "recommender": recommender.metrics.RecommenderMetrics(per_container=True).registry,
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
    if isinstance(collector, Info):
        labels = tuple(collector._value)  # noqa: SLF001 - see ``exposed``
    elif isinstance(collector, MetricWrapperBase):
        labels = tuple(collector._labelnames)  # noqa: SLF001 - see ``exposed``
    else:
        assert isinstance(collector, PlainCounter | BatchHistogram | SnapshotGauge)  # noqa: S101 - for the type checker
        labels = tuple(collector.labels)
    name, kind = described.name, described.type
    return Exposed(
        name=name + {"counter": "_total", "info": "_info"}.get(kind, ""),
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


def reasons_page() -> str:
    """The content of docs/reasons.md."""
    parts: dict[str, list[Row]] = {}
    for reason in Reason:
        if reason in PARTS:
            rows = parts.setdefault(PARTS[reason], [])
        remedy = _flags_in(REMEDIES.get(reason, ""))
        rows.append((f"`{reason}`", _flags_in(reason.meaning), UNTIL.get(reason, ""), remedy))
    head = ("reason", "meaning", "until, where known", "what would unblock the pod")
    sections = (f"## {part}\n\n{table(head, rows)}" for part, rows in parts.items())
    return "\n".join((_title("Reasons of the updater"), REASONS, *sections))


def _flags_in(text: str) -> str:
    """Return the text with its flags as code."""
    return re.sub(r"--[a-z-]+[a-z](=[a-z]+)?", r"`\g<0>`", text)


PAGES = {"flags.md": flags_page, "metrics.md": metrics_page, "reasons.md": reasons_page}


def main() -> int:
    """Write the pages; the exit code."""
    for name, content in PAGES.items():
        (FOLDER / name).write_text(content(), encoding="utf-8")
    chart_values.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
