"""What workloads, Jobs and CronJobs may be and become: one broken rule, or one default, each.

All of it are dry runs, so that no controller has a part in it.
"""

from collections.abc import Mapping
from typing import Any

from recorded_requests.case import (
    APPS,
    BATCH,
    JSON_PATCH,
    MERGE,
    NS,
    Case,
    Object,
    Request,
    case,
    delete,
    get,
    named,
    patch,
    post,
    put,
    template,
)

SELECTOR = {"matchLabels": {"app": "x"}}
ENDING = template(restartPolicy="Never")
ROLLING = {"type": "RollingUpdate"}
KINDS = ("deployments", "replicasets", "statefulsets", "daemonsets")

Specs = Mapping[str, Mapping[str, Any]]


def workload(kind: str, **spec: Any) -> Object:
    given: dict[str, Any] = {"selector": SELECTOR, "template": template()}
    if kind != "daemonsets":
        given["replicas"] = 0
    return named("w", spec={**given, **spec})


def labelled(**meta: Any) -> Object:
    return {**template(), "metadata": {"labels": {"app": "x"}, **meta}}


def expression(**one: Any) -> Object:
    return {"selector": {"matchExpressions": [one]}}


COMMON: Specs = {
    "ready-negative": {"minReadySeconds": -1},
    "history-negative": {"revisionHistoryLimit": -1},
    "deadline-of-pods": {"template": template(activeDeadlineSeconds=5)},
    "selector-no-values": expression(key="app", operator="In"),
    "selector-needless-values": expression(key="app", operator="Exists", values=["a"]),
    "selector-bad-key": expression(key="b_?", operator="In", values=["a b"]),
    "selector-bad-label": {"selector": {"matchLabels": {"b?": "x"}}},
    "template-bad-label": {"template": labelled(labels={"app": "x", "b c": "d e"})},
    "template-bad-annotation": {"template": labelled(annotations={"X y": "z"})},
    "template-no-labels": {"template": {**template(), "metadata": {}}},
}


def rolling(field: str, **parameters: Any) -> Object:
    return {field: {**ROLLING, "rollingUpdate": parameters}}


OWN: Mapping[str, Specs] = {
    "deployments": {
        "deadline-negative": {"progressDeadlineSeconds": -1},
        "unavailable-too-much": rolling("strategy", maxUnavailable="120%"),
        "unavailable-negative": rolling("strategy", maxUnavailable=-1),
        "no-progress-percent": rolling("strategy", maxSurge="0%", maxUnavailable="0%"),
        "surge-without-percent": rolling("strategy", maxSurge="5"),
        "odd-strategy": {"strategy": {"type": "Odd", "rollingUpdate": {"maxSurge": "5"}}},
        "strategy-without-type": {"strategy": {"rollingUpdate": {"maxSurge": 1}}},
        "strategy-empty-type": {"strategy": {"type": ""}},
    },
    "statefulsets": {
        "on-delete-parameters": {
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}
        },
        "odd-strategy": {"updateStrategy": {"type": "Odd"}},
        "strategy-bare": {"updateStrategy": ROLLING},
        "partition-negative": rolling("updateStrategy", partition=-1),
        "parameters-empty": rolling("updateStrategy"),
        "unavailable": rolling("updateStrategy", maxUnavailable=2),
        "odd-retention": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Odd"}},
        "retention": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
        "bad-service": {"serviceName": "A_b"},
        "ordinal-negative": {"ordinals": {"start": -2}},
        "ordinal": {"ordinals": {"start": 3}},
        "empty-claim": {"volumeClaimTemplates": [named("c", spec={})]},
        "no-claims": {"volumeClaimTemplates": []},
    },
    "daemonsets": {
        "both": rolling("updateStrategy", maxSurge=1, maxUnavailable=1),
        "neither": rolling("updateStrategy", maxSurge=0, maxUnavailable=0),
        "bad-percent": rolling("updateStrategy", maxUnavailable="x"),
        "too-much": rolling("updateStrategy", maxUnavailable="101%"),
        "odd-strategy": {"updateStrategy": {"type": "Odd", "rollingUpdate": {"maxSurge": 2}}},
    },
}
JOBS: Specs = {
    "negatives": {
        "completions": -1,
        "backoffLimit": -1,
        "activeDeadlineSeconds": -1,
        "ttlSecondsAfterFinished": -1,
    },
    "odd-mode": {"completionMode": "Odd"},
    "indexed-without-number": {"completionMode": "Indexed", "parallelism": 2},
    "indexed-too-parallel": {
        "completionMode": "Indexed",
        "completions": 5,
        "parallelism": 200_000,
    },
    "limit-per-index": {"backoffLimitPerIndex": 1},
    "failed-indexes": {"maxFailedIndexes": 1},
    "too-many-failed-indexes": {
        "completionMode": "Indexed",
        "completions": 3,
        "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 9,
    },
    "indexed-limit": {"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1},
    "odd-replacement": {"podReplacementPolicy": "Odd"},
    "own-selector-missing": {"manualSelector": True},
    "own-selector": {"manualSelector": True, "selector": SELECTOR},
    "own-selector-of-others": {"manualSelector": True, "selector": {"matchLabels": {"a": "q"}}},
    "odd-operator": expression(key="a", operator="Odd"),
    "other-job-name": {"template": {**ENDING, "metadata": {"labels": {"job-name": "other"}}}},
    "no-labels": {"template": {**ENDING, "metadata": {}}},
    "on-failure": {"template": template(restartPolicy="OnFailure")},
    "odd-restart": {"template": template(restartPolicy="Odd")},
    "manager-without-domain": {"managedBy": "manager"},
    "manager-odd-path": {"managedBy": f"A_b/ {'x' * 60}"},
}
SCHEDULES = {
    "four-fields": "* * * *",
    "minute-60": "60 * * * *",
    "no-number": "x * * * *",
    "unknown-macro": "@soon",
    "every-without-unit": "@every 5",
    "every": "@every 1.5h",
    "macro": "@daily",
    "backwards": "5-1 * * * *",
    "step-zero": "*/0 * * * *",
    "two-hyphens": "1-2-3 * * * *",
    "two-slashes": "1/2/3 * * * *",
    "negative": "-1 * * * *",
    "zone": "TZ=UTC 0 0 * * *",
    "space": " 0 0 * * *",
    "sunday-7": "0 0 * * 7",
    "empty-list": ", 0 * * *",
    "huge": "99999999999999999999 * * * *",
}
ZONES = ("", "Local", "local", "UTC", "../x", "Europe/berlin", "A" * 20)
CRON_JOBS: Specs = {
    "start-negative": {"startingDeadlineSeconds": -1},
    "failed-negative": {"failedJobsHistoryLimit": -1},
    "empty-policy": {"concurrencyPolicy": ""},
    "empty-template": {"jobTemplate": {}},
    "selector": {
        "jobTemplate": {"spec": {"manualSelector": True, "selector": SELECTOR, "template": ENDING}}
    },
    "parallelism-negative": {"jobTemplate": {"spec": {"parallelism": -2, "template": ENDING}}},
}

# Values of another type than Go's.
TYPES: Mapping[str, Specs] = {
    "deployments": {
        "replicas-huge": {"replicas": 99_999_999_999},
        "replicas-fraction": {"replicas": 1.5},
        "strategy-text": {"strategy": "x"},
        "surge-fraction": rolling("strategy", maxSurge=1.5),
        "surge-flag": rolling("strategy", maxSurge=True),
        "paused-text": {"paused": "x"},
        "selector-text": {"selector": "x"},
        "key-number": expression(key=1),
    },
    "statefulsets": {
        "ordinals-text": {"ordinals": "x"},
        "claims-text": {"volumeClaimTemplates": "x"},
        "parameters-text": {"updateStrategy": {"rollingUpdate": "x"}},
        "partition-text": rolling("updateStrategy", partition="x"),
    },
    "daemonsets": {"unavailable-list": rolling("updateStrategy", maxUnavailable=[])},
    "jobs": {
        "ttl-text": {"ttlSecondsAfterFinished": "x"},
        "failure-policy-text": {"podFailurePolicy": "x"},
        "failure-rules-text": {"podFailurePolicy": {"rules": "x"}},
        "own-selector-text": {"manualSelector": "x"},
        "limit-per-index-text": {"backoffLimitPerIndex": "x"},
        "managed-by-number": {"managedBy": 3},
        "deadline-fraction": {"activeDeadlineSeconds": 1.5},
    },
    "cronjobs": {
        "schedule-number": {"schedule": 5},
        "template-text": {"jobTemplate": "x"},
        "start-text": {"startingDeadlineSeconds": "x"},
        "zone-number": {"timeZone": 4},
    },
}


def job(name: str = "j", **spec: Any) -> Object:
    return named(name, spec={"suspend": True, "template": ENDING, **spec})


def cron_job(**spec: Any) -> Object:
    inner = {"jobTemplate": {"spec": {"template": ENDING}}}
    return named("c", spec={"schedule": "0 0 * * *", "suspend": True, **inner, **spec})


def tried(path: str, body: Object) -> Request:
    return post(f"{path}?dryRun=All", body)


def creations() -> list[Case]:
    """New objects."""
    every = [(kind, name, spec) for kind in KINDS for name, spec in COMMON.items()]
    every += [(kind, name, spec) for kind, specs in OWN.items() for name, spec in specs.items()]
    controllers = {
        "defaults": {"template": template()},
        "other-labels": {"selector": {"app": "y"}, "template": template(restartPolicy="Never")},
        "negatives": {
            "replicas": -1,
            "minReadySeconds": -1,
            "template": template(activeDeadlineSeconds=3),
        },
    }
    sets, rc = f"{APPS}/statefulsets", f"{NS}/replicationcontrollers"
    counted = {"annotations": {"deprecated.daemonset.template.generation": "7"}}
    return [
        *(
            case(f"rules-{kind}-{name}", tried(f"{APPS}/{kind}", workload(kind, **spec)))
            for kind, name, spec in every
        ),
        *(
            case(f"rules-replicationcontrollers-{name}", tried(rc, named("w", spec=spec)))
            for name, spec in controllers.items()
        ),
        case(
            "rules-statefulsets-dots",
            tried(sets, {**workload("statefulsets"), **named("a.b")}),
        ),
        case(
            "rules-statefulsets-long-name",
            tried(sets, {**workload("statefulsets"), **named("a" * 64)}),
        ),
        case(
            "rules-daemonsets-counted",
            tried(f"{APPS}/daemonsets", {**workload("daemonsets"), **named("w", meta=counted)}),
        ),
        *(
            case(f"rules-jobs-{name}", tried(f"{BATCH}/jobs", job(**spec)))
            for name, spec in JOBS.items()
        ),
        case(
            "rules-jobs-own-labels",
            tried(f"{BATCH}/jobs", {**job(), **named("j.k", meta={"labels": {"own": "1"}})}),
        ),
        case(
            "rules-jobs-indexed-long-name",
            tried(f"{BATCH}/jobs", job("j" * 62, completionMode="Indexed", completions=20)),
        ),
        case("rules-jobs-no-spec", tried(f"{BATCH}/jobs", named("j"))),
        case("rules-cronjobs-no-spec", tried(f"{BATCH}/cronjobs", named("c"))),
        *(
            case(f"rules-schedule-{name}", tried(f"{BATCH}/cronjobs", cron_job(schedule=text)))
            for name, text in SCHEDULES.items()
        ),
        *(
            case(f"rules-zone-{index}", tried(f"{BATCH}/cronjobs", cron_job(timeZone=zone)))
            for index, zone in enumerate(ZONES)
        ),
        *(
            case(f"rules-cronjobs-{name}", tried(f"{BATCH}/cronjobs", cron_job(**spec)))
            for name, spec in CRON_JOBS.items()
        ),
    ]


def types() -> list[Case]:
    """What can't be decoded."""

    def body(kind: str, spec: Mapping[str, Any]) -> Object:
        made = {"jobs": job, "cronjobs": cron_job}.get(kind)
        return workload(kind, **spec) if made is None else made(**spec)

    return [
        case(
            f"rules-type-{kind}-{name}",
            tried(f"{BATCH if kind.endswith('jobs') else APPS}/{kind}", body(kind, spec)),
        )
        for kind, specs in TYPES.items()
        for name, spec in specs.items()
    ]


def changes() -> list[Case]:
    """What may not become of objects that are there."""

    def one(kind: str, name: str, spec: Any, made: Request, path: str = APPS) -> Case:
        where = f"{path}/{kind}/{made.body['metadata']['name']}?dryRun=All"
        change = patch(where, {"spec": spec}, MERGE)
        return case(f"rules-change-{kind}-{name}", change, before=[made])

    result = []
    for kind in KINDS:
        made = post(f"{APPS}/{kind}", workload(kind))
        other = {"metadata": {"labels": {"app": "q"}}}
        result += [
            one(kind, "ready-negative", {"minReadySeconds": -1}, made),
            one(kind, "selector", {"selector": {"matchLabels": {"app": "y"}}}, made),
            one(kind, "labels", {"template": other}, made),
        ]
    sets = post(f"{APPS}/statefulsets", workload("statefulsets", serviceName="s"))
    suspended = post(f"{BATCH}/jobs", job(completions=2))
    indexed = post(f"{BATCH}/jobs", job(completionMode="Indexed", completions=2))
    cron = post(f"{BATCH}/cronjobs", cron_job())
    rc = post(f"{NS}/replicationcontrollers", named("w", spec={"template": template()}))
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "b"}
    return [
        *result,
        one("statefulsets", "management", {"podManagementPolicy": "Parallel"}, sets),
        one("statefulsets", "no-service", {"serviceName": ""}, sets),
        one("jobs", "completions", {"completions": 3}, suspended, BATCH),
        one("jobs", "completions-indexed", {"completions": 3}, indexed, BATCH),
        one("jobs", "selector", {"selector": {"matchLabels": {"a": "b"}}}, suspended, BATCH),
        one("jobs", "mode", {"completionMode": "Indexed"}, suspended, BATCH),
        one("jobs", "parallelism-negative", {"parallelism": -1}, suspended, BATCH),
        one("jobs", "managed-by", {"managedBy": "example.com/x"}, suspended, BATCH),
        one("cronjobs", "zone-in-schedule", {"schedule": "TZ=UTC 0 0 * * *"}, cron, BATCH),
        one("cronjobs", "zone", {"timeZone": "Mars"}, cron, BATCH),
        one("cronjobs", "policy", {"concurrencyPolicy": "x"}, cron, BATCH),
        one("replicationcontrollers", "selector", {"selector": {"app": "q"}}, rc, NS),
        one("replicationcontrollers", "no-template", {"template": None}, rc, NS),
        case(
            "rules-change-deployments-two",
            patch(f"{APPS}/deployments/w?dryRun=All", [image, {**image, "value": ""}], JSON_PATCH),
            before=[post(f"{APPS}/deployments", workload("deployments"))],
        ),
    ]


def deletions() -> list[Case]:
    """What becomes of what an object owned is asked for, or has a default."""
    path, made = f"{BATCH}/jobs/j", [post(f"{BATCH}/jobs", job())]
    missing = f"{NS}/configmaps/c"
    map_made = [post(f"{NS}/configmaps", named("c", data={"a": "b"}))]
    return [
        case("rules-delete-job-orphans", delete(path, {"orphanDependents": False}), before=made),
        case(
            "rules-delete-foreground",
            delete(missing, {"propagationPolicy": "Foreground"}),
            before=map_made,
        ),
        case(
            "rules-delete-body-speaks-alone",
            delete(f"{missing}?dryRun=All", {"propagationPolicy": "Background"}),
            get(missing),
            before=map_made,
        ),
    ]


def scales() -> list[Case]:
    """Scales that can't be read, or name something else."""
    path = f"{APPS}/deployments/w/scale"
    made = [post(f"{APPS}/deployments", workload("deployments"))]
    bodies: Mapping[str, Any] = {
        "text": named("w", spec={"replicas": "2"}),
        "fraction": named("w", spec={"replicas": 1.5}),
        "flag": named("w", spec={"replicas": True}),
        "huge": named("w", spec={"replicas": 99_999_999_999}),
        "spec-text": named("w", spec="x"),
        "no-name": {"spec": {"replicas": 0}},
        "other-namespace": named("w", meta={"namespace": "other"}, spec={"replicas": 0}),
        "other-kind": {**named("w"), "kind": "Deployment", "apiVersion": "apps/v1"},
        "other-version": {**named("w"), "kind": "Scale", "apiVersion": "autoscaling/v2"},
    }
    missing = {"op": "replace", "path": "/spec/replicas", "value": 0}
    return [
        *(
            case(f"rules-scale-{name}", put(path, body), before=made)
            for name, body in bodies.items()
        ),
        case(
            "rules-scale-replace-missing",
            patch(f"{path}?dryRun=All", [missing], JSON_PATCH),
            before=made,
        ),
    ]


CASES = [*creations(), *types(), *changes(), *deletions(), *scales()]
