"""The rules that Jobs and CronJobs keep, and the selector that a Job is given.

Not checked: the rules inside of pod failure and success policies, which nothing here acts on.

Source: k8s.io/kubernetes pkg/apis/batch/validation/validation.go; ``generateSelector``,
pkg/registry/batch/job/strategy.go there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from common.errors import Cause
from sandbox.errors import (
    field_immutable,
    field_invalid,
    field_not_supported,
    field_required,
    field_too_long,
    fields_invalid,
)
from sandbox.objects.label_selectors import read_selector
from sandbox.objects.rules.dns_names import label_problems, subdomain_problems
from sandbox.objects.rules.numbers import negative_causes
from sandbox.objects.rules.selectors import in_go_order, selector_causes
from sandbox.schedules import ScheduleError, parse_schedule

Json = Mapping[str, Any]

_UID: Final = "batch.kubernetes.io/controller-uid"
_OLD_UID: Final = "controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"
_OLD_NAME: Final = "job-name"
_RESTARTS: Final = ("OnFailure", "Never")
_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")
_MODES: Final = ("NonIndexed", "Indexed")
_INDEXED_ONLY: Final = "requires indexed completion mode"
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_MOST_PARALLEL: Final = 100_000  # pods of an indexed Job
_LONGEST_MANAGER: Final = 63
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_LONGEST_CRON_JOB: Final = 52  # the names of its Jobs are eleven characters longer
_ZONE_PART: Final = re.compile(r"(?!\.{1,2}$)(?!-)[A-Za-z._0-9+-]{1,14}")
_FIXED: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
# What may change in the template of a Job that waits and hasn't begun.
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def select_own_pods(job: dict[str, Any]) -> None:
    """Mark, in place, the pods of a new Job, and select them, unless it selects by itself."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for key, value in _own_labels(meta).items():
        labels.setdefault(key, value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(_UID, meta["uid"])
    if not meta.get("labels"):
        meta["labels"] = labels


def _own_labels(meta: Json) -> dict[str, str]:
    uid, name = meta["uid"], meta["name"]
    return {_OLD_UID: uid, _OLD_NAME: name, _UID: uid, _NAME: name}


def job_causes(job: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    """Every rule that a Job breaks; ``template`` is what is wrong with its pods."""
    spec, name = job.get("spec") or {}, job["metadata"].get("name", "")
    yield from _generated_causes(job)
    yield from _whole_spec_causes(spec, template)
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and isinstance(completions, int) and completions > 0:
        host = f"{name}-{completions - 1}"
        if any(label_problems(host)):
            text = f"will not able to create pod with invalid DNS label: {host}"
            yield field_invalid("metadata.name", name, text)


def job_change_causes(old: Json, new: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    """Every rule that a change breaks; those of the Job itself are told twice, as they are."""
    yield from job_causes(new, template)
    before, after = old.get("spec") or {}, new.get("spec") or {}
    yield from _whole_spec_causes(after, template)
    yield from _completions_causes(before, after)
    if before.get("selector") != after.get("selector"):
        shown = in_go_order(after.get("selector"))
        yield field_immutable("spec.selector", shown)
    yield from _template_change_causes(old, before, after)
    for name in _FIXED:
        if before.get(name) != after.get(name):
            yield field_immutable(f"spec.{name}", after.get(name))


def cron_job_causes(cron: Json, template: Sequence[Cause], old: Json | None) -> Iterator[Cause]:
    """Every rule that a CronJob breaks; ``old`` is what it was, None for a new one."""
    spec, before = cron.get("spec") or {}, (old or {}).get("spec") or {}
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if schedule:
        zoned_before = "TZ" in before.get("schedule", "")
        yield from _schedule_causes(schedule, zone, zoned_before=zoned_before)
    else:
        yield field_required("spec.schedule")
    yield from negative_causes(spec, "spec", "startingDeadlineSeconds")
    if zone is not None and (old is None or before.get("timeZone") != zone):
        yield from _zone_causes(zone)
    policy = spec.get("concurrencyPolicy")
    if policy not in _CONCURRENCY:
        yield field_not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY)
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    path = "spec.jobTemplate.spec"
    yield from _spec_causes(inner, path, template)
    if inner.get("selector") is not None:
        text = "`selector` will be auto-generated"
        yield field_invalid(f"{path}.selector", in_go_order(inner["selector"]), text)
    if inner.get("manualSelector"):
        yield field_not_supported(f"{path}.manualSelector", True, ("nil", "false"))
    yield from negative_causes(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    name = cron["metadata"].get("name", "")
    if old is None and len(name) > _LONGEST_CRON_JOB:
        text = f"must be no more than {_LONGEST_CRON_JOB} characters"
        yield field_invalid("metadata.name", name, text)


def _generated_causes(job: Json) -> Iterator[Cause]:
    """The labels and the selector must be those that the server generates."""
    spec = job.get("spec") or {}
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    labels, expected = _labels(spec), _own_labels(job["metadata"])
    for key, value in expected.items():
        where = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield field_required(where, f"must be '{value}'")
        elif labels[key] != value:
            yield field_invalid(where, labels, f"must be '{value}'")
    selector = read_selector(spec["selector"])
    if selector is not None and not selector.matches(expected):
        text = "`selector` not auto-generated"
        yield field_invalid("spec.selector", in_go_order(spec["selector"]), text)


def _whole_spec_causes(spec: Json, template: Sequence[Cause]) -> Iterator[Cause]:
    yield from _spec_causes(spec, "spec", template)
    selector = spec.get("selector")
    if selector is None:
        yield field_required("spec.selector")
    yield from selector_causes(selector, "spec.selector")
    found, labels = read_selector(selector), _labels(spec)
    if found is not None and not found.matches(labels):
        text = "`selector` does not match template `labels`"
        yield field_invalid("spec.template.metadata.labels", labels or None, text)


def _labels(spec: Json) -> dict[str, str]:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return dict(sorted(labels.items()))


def _spec_causes(spec: Json, path: str, template: Sequence[Cause]) -> Iterator[Cause]:
    """What a Job and the template of one have in common."""
    yield from negative_causes(
        spec,
        path,
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    )
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield field_required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("managedBy") is not None:
        yield from _manager_causes(spec["managedBy"], f"{path}.managedBy")
    yield from _mode_causes(spec, path)
    replacement = spec.get("podReplacementPolicy")
    supported = _REPLACEMENTS[:1] if spec.get("podFailurePolicy") else _REPLACEMENTS
    if replacement is not None and replacement not in supported:
        yield field_not_supported(f"{path}.podReplacementPolicy", replacement, supported)
    yield from template
    yield from _restart_causes(spec, f"{path}.template.spec.restartPolicy")


def _manager_causes(manager: str, path: str) -> Iterator[Cause]:
    """A domain, and a path below it."""
    domain, _, rest = manager.partition("/")
    if not manager:
        yield field_required(path)
    elif not domain or not rest:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield field_invalid(path, manager, text)
    else:
        yield from fields_invalid(path, domain, subdomain_problems(domain))
        if re.fullmatch(_PATH, rest) is None:
            text = f"Invalid path (regex used for validation is '{_PATH}')"
            yield field_invalid(path, rest, text)
    if len(manager) > _LONGEST_MANAGER:
        yield field_too_long(path, _LONGEST_MANAGER)


def _mode_causes(spec: Json, path: str) -> Iterator[Cause]:
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        yield field_not_supported(f"{path}.completionMode", mode, _MODES)
    if mode == "Indexed":
        if spec.get("completions") is None:
            yield field_required(f"{path}.completions", "when completion mode is Indexed")
        parallelism = spec.get("parallelism")
        if isinstance(parallelism, int) and parallelism > _MOST_PARALLEL:
            text = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
            yield field_invalid(f"{path}.parallelism", parallelism, text)
        most = spec.get("maxFailedIndexes")
        if most is not None and most > spec.get("completions", most):
            text = "must be less than or equal to completions"
            yield field_invalid(f"{path}.maxFailedIndexes", most, text)
        return
    if mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield field_invalid(f"{path}.{name}", spec[name], _INDEXED_ONLY)
    if spec.get("successPolicy") is not None:
        yield field_invalid(f"{path}.successPolicy", spec["successPolicy"], _INDEXED_ONLY)


def _restart_causes(spec: Json, path: str) -> Iterator[Cause]:
    """Pods of a Job end; ``Always`` is what a client has left out."""
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "Always")
    if policy == "Always":
        yield field_required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in _RESTARTS:
        yield field_not_supported(path, policy, _RESTARTS)
    elif spec.get("podFailurePolicy") and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        yield field_invalid(path, policy, text)


def _completions_causes(before: Json, after: Json) -> Iterator[Cause]:
    """A Job that counts indexes may change how many, together with how many run at once."""
    wanted = after.get("completions")
    if before.get("completions") == wanted:
        return
    if after.get("completionMode") != "Indexed":
        yield field_immutable("spec.completions", wanted)
    elif wanted is not None and wanted != after.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        yield field_invalid("spec.completions", wanted, text)


def _template_change_causes(old: Json, before: Json, after: Json) -> Iterator[Cause]:
    """The pods to be may not change, unless the Job waits and none of them runs.

    Then their resources may change, and what decides on their nodes.
    """
    status = old.get("status") or {}
    waits = bool(before.get("suspend"))
    begun = status.get("startTime") is not None and not any(
        one.get("type") == "Suspended" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )
    free = waits and not begun and not status.get("active")
    was, now = before.get("template") or {}, after.get("template") or {}
    if not free:
        if was != now:
            yield field_immutable("spec.template", now)
        return
    if _pinned(was) != _pinned(now):
        yield field_immutable("spec.template.spec", now.get("spec"))


def _pinned(template: Json) -> dict[str, Any]:
    """What even a Job that waits may not change: all but resources and placement."""
    spec = {
        name: value
        for name, value in (template.get("spec") or {}).items()
        if name not in _SCHEDULING
    }
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [{**one, "resources": None} for one in spec[part]]
    affinity = dict(spec.pop("affinity", None) or {})
    affinity.pop("nodeAffinity", None)
    return {**spec, "affinity": affinity}


def _schedule_causes(schedule: str, zone: str | None, *, zoned_before: bool) -> Iterator[Cause]:
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        yield field_invalid("spec.schedule", schedule, str(error))
    if "TZ" not in schedule:
        return
    if not zoned_before:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield field_invalid("spec.schedule", schedule, text)
    elif zone is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield field_invalid("spec.schedule", schedule, text)


def _zone_causes(zone: str) -> Iterator[Cause]:
    path, unknown = "spec.timeZone", f"unknown time zone {zone}"
    if not zone:
        yield field_invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if not all(_ZONE_PART.fullmatch(part) for part in zone.split("/")):
        yield field_invalid(path, zone, unknown)
        return
    if zone.lower() == "local":
        text = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        yield field_invalid(path, zone, text)
    try:
        ZoneInfo(zone)
    except IsADirectoryError:
        yield field_invalid(path, zone, "is a directory")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if zone != "Local":  # which Go takes for the zone of the machine
            yield field_invalid(path, zone, unknown)
