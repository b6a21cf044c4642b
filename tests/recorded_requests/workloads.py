"""Workload controllers, their scales, and the jobs."""

from typing import Any

from recorded_requests.case import (
    APPS,
    BATCH,
    MERGE,
    NS,
    STRATEGIC,
    Case,
    case,
    container,
    delete,
    get,
    named,
    patch,
    post,
    put,
    template,
    workload,
)

KINDS = ("deployments", "replicasets", "statefulsets", "daemonsets")
SCALED = ("deployments", "replicasets", "statefulsets")


CLAIM = named(
    "c",
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)


def mounting(volume: str = "c", **spec: Any) -> Any:
    return template(container(volumeMounts=[{"name": volume, "mountPath": "/data"}]), **spec)


def idle(kind: str, **spec: Any) -> Any:
    """A workload without pods, so that no controller has much to do."""
    given = {} if kind == "daemonsets" else {"replicas": 0}
    named_service = {"serviceName": "s"} if kind == "statefulsets" else {}
    return workload("w", **named_service, **given, **spec)


def creations(kind: str) -> list[Case]:
    """What is filled in and refused, alike for each kind; dry runs, so that nobody reacts."""
    path = f"{APPS}/{kind}?dryRun=All"
    good = idle(kind)
    spec = good["spec"]
    bodies = {
        "minimal": good,
        "no-selector": named("w", spec={"template": template()}),
        "empty-selector": named("w", spec={**spec, "selector": {}}),
        "no-template": named("w", spec={"selector": spec["selector"]}),
        "other-labels": named("w", spec={**spec, "template": template(labels={"app": "y"})}),
        "no-containers": named(
            "w", spec={**spec, "template": {"metadata": {"labels": {"app": "x"}}}}
        ),
        "restart-never": named("w", spec={**spec, "template": template(restartPolicy="Never")}),
        "bad-name": {**good, "metadata": {"name": "W_"}},
        "no-spec": named("w"),
        "selector-operator": named(
            "w",
            spec={**spec, "selector": {"matchExpressions": [{"key": "app", "operator": "Likes"}]}},
        ),
        "request-above-limit": named(
            "w",
            spec={
                **spec,
                "template": template(
                    {
                        "name": "a",
                        "image": "i:1",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    }
                ),
            },
        ),
        "replicas-text": named("w", spec={**spec, "replicas": "3"}),
    }
    if kind != "daemonsets":
        bodies["replicas-negative"] = named("w", spec={**spec, "replicas": -1})
        bodies["replicas-default"] = named(
            "w", spec={k: v for k, v in spec.items() if k != "replicas"}
        )
    return [case(f"create-{kind}-{name}", post(path, body)) for name, body in bodies.items()]


def strategies() -> list[Case]:
    """The fields that one kind has."""

    def one(kind: str, name: str, **spec: Any) -> Case:
        body = idle(kind, **spec)
        return case(f"create-{kind}-{name}", post(f"{APPS}/{kind}?dryRun=All", body))

    rolling = {"type": "RollingUpdate"}
    return [
        one("deployments", "recreate", strategy={"type": "Recreate"}),
        one(
            "deployments",
            "recreate-with-parameters",
            strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
        ),
        one(
            "deployments",
            "no-progress",
            strategy={**rolling, "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
        ),
        one(
            "deployments",
            "surge-percent",
            strategy={**rolling, "rollingUpdate": {"maxSurge": "50%"}},
        ),
        one(
            "deployments",
            "bad-percent",
            strategy={**rolling, "rollingUpdate": {"maxSurge": "half"}},
        ),
        one("deployments", "unknown-strategy", strategy={"type": "Slowly"}),
        one("deployments", "deadline-below-ready", minReadySeconds=700),
        one("deployments", "history", revisionHistoryLimit=3, paused=True),
        one("statefulsets", "parallel", podManagementPolicy="Parallel"),
        one("statefulsets", "bad-management", podManagementPolicy="Chaos"),
        one("statefulsets", "on-delete", updateStrategy={"type": "OnDelete"}),
        one(
            "statefulsets",
            "partition",
            updateStrategy={**rolling, "rollingUpdate": {"partition": 2}},
        ),
        one("statefulsets", "claims", volumeClaimTemplates=[CLAIM]),
        one("statefulsets", "claims-mounted", template=mounting(), volumeClaimTemplates=[CLAIM]),
        one(
            "statefulsets",
            "claims-instead-of-volumes",
            template=mounting(volumes=[{"name": "c", "emptyDir": {}}, {"name": "d"}]),
            volumeClaimTemplates=[CLAIM, CLAIM],
        ),
        one("statefulsets", "claims-of-others-mounted", template=mounting("d", volumes=[])),
        one("daemonsets", "on-delete", updateStrategy={"type": "OnDelete"}),
        one(
            "daemonsets",
            "surge",
            updateStrategy={**rolling, "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        ),
    ]


def changes() -> list[Case]:
    """Changes of stored workloads; what a controller writes is left out by dry runs."""
    result = []
    for kind in KINDS:
        path = f"{APPS}/{kind}/w"
        made = [post(f"{APPS}/{kind}", idle(kind))]
        selector = {
            "spec": {
                "selector": {"matchLabels": {"app": "y"}},
                "template": {"metadata": {"labels": {"app": "y"}}},
            }
        }
        bad = {
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{"name": "app", "resources": {"requests": {"cpu": "-1"}}}]
                    }
                }
            }
        }
        result += [
            case(f"change-{kind}-selector", patch(f"{path}?dryRun=All", selector), before=made),
            case(f"change-{kind}-bad-resources", patch(path, bad), before=made),
            case(
                f"change-{kind}-bad-template",
                patch(path, {"spec": {"template": {"spec": {"containers": None}}}}, MERGE),
                before=made,
            ),
            case(
                f"change-{kind}-labels-gone",
                patch(path, {"spec": {"template": {"metadata": {"labels": None}}}}, MERGE),
                before=made,
            ),
            case(
                f"change-{kind}-put-stale",
                put(path, {**idle(kind), "metadata": {"name": "w", "resourceVersion": "1"}}),
                before=made,
            ),
            case(f"change-{kind}-put-missing", put(path, idle(kind))),
            case(f"change-{kind}-twice", post(f"{APPS}/{kind}", idle(kind)), before=made),
            case(
                f"change-{kind}-unknown-strict",
                post(f"{APPS}/{kind}?fieldValidation=Strict", {**idle(kind), "hue": 1}),
            ),
            case(
                f"change-{kind}-unknown-warn",
                post(f"{APPS}/{kind}?fieldValidation=Warn&dryRun=All", {**idle(kind), "hue": 1}),
            ),
            case(f"change-{kind}-missing", get(path), patch(path, {}), delete(path)),
        ]
    sts = {"spec": {"serviceName": "other"}}
    made = [post(f"{APPS}/statefulsets", idle("statefulsets"))]
    result.append(
        case("change-statefulsets-service-name", patch(f"{APPS}/statefulsets/w", sts), before=made)
    )
    return result


def scales() -> list[Case]:
    """The scale subresource."""
    result = []
    for kind in SCALED:
        path = f"{APPS}/{kind}/w/scale"
        # Paused, or a StatefulSet that waits: nobody makes pods of it while we look.
        made = [post(f"{APPS}/{kind}", idle(kind))]
        result += [
            case(f"scale-{kind}-get", get(path), before=made),
            case(f"scale-{kind}-missing", get(path), patch(path, {"spec": {"replicas": 1}}, MERGE)),
            case(
                f"scale-{kind}-patch-dry-run",
                patch(f"{path}?dryRun=All", {"spec": {"replicas": 3}}, MERGE),
                before=made,
            ),
            case(
                f"scale-{kind}-put-dry-run",
                put(f"{path}?dryRun=All", named("w", spec={"replicas": 2})),
                before=made,
            ),
            case(
                f"scale-{kind}-negative",
                patch(path, {"spec": {"replicas": -1}}, MERGE),
                before=made,
            ),
            case(
                f"scale-{kind}-text", patch(path, {"spec": {"replicas": "2"}}, MERGE), before=made
            ),
            case(
                f"scale-{kind}-put-stale",
                put(path, named("w", meta={"resourceVersion": "1"}, spec={"replicas": 2})),
                before=made,
            ),
            case(
                f"scale-{kind}-put-other-name",
                put(path, named("v", spec={"replicas": 2})),
                before=made,
            ),
            case(
                f"scale-{kind}-strategic",
                patch(f"{path}?dryRun=All", {"spec": {"replicas": 3}}, STRATEGIC),
                before=made,
            ),
        ]
    rc = f"{NS}/replicationcontrollers"
    body = named("w", spec={"replicas": 0, "selector": {"app": "x"}, "template": template()})
    result += [
        case("scale-replicationcontrollers-get", get(f"{rc}/w/scale"), before=[post(rc, body)]),
        case(
            "scale-daemonsets",
            get(f"{APPS}/daemonsets/w/scale"),
            before=[post(f"{APPS}/daemonsets", idle("daemonsets"))],
        ),
        case("create-replicationcontrollers-minimal", post(f"{rc}?dryRun=All", body)),
        case("create-replicationcontrollers-no-spec", post(rc, named("w"))),
    ]
    return result


def jobs() -> list[Case]:
    """Jobs and CronJobs."""

    def job(**spec: Any) -> Any:
        return named(
            "j", spec={"template": template(restartPolicy="Never"), "suspend": True, **spec}
        )

    def cron(**spec: Any) -> Any:
        return named(
            "c",
            spec={
                "schedule": "0 0 * * *",
                "suspend": True,
                "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
                **spec,
            },
        )

    stored = {
        "minimal": job(),
        "parallel": job(parallelism=2, completions=4, backoffLimit=1),
        "indexed": job(completionMode="Indexed", completions=2),
        "restart-always": job(template=template(restartPolicy="Always")),
        "no-template": named("j", spec={}),
        "negative": job(parallelism=-1),
        "indexed-without-completions": job(completionMode="Indexed"),
        "manual-selector-missing": job(selector={"matchLabels": {"a": "b"}}),
        "ttl": job(ttlSecondsAfterFinished=10, activeDeadlineSeconds=5),
    }
    crons = {
        "minimal": cron(),
        "bad-schedule": cron(schedule="often"),
        "no-schedule": named(
            "c", spec={"jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}}
        ),
        "forbid": cron(concurrencyPolicy="Forbid", startingDeadlineSeconds=10),
        "bad-policy": cron(concurrencyPolicy="Perhaps"),
        "time-zone": cron(timeZone="Europe/Berlin"),
        "bad-time-zone": cron(timeZone="Europe/Nowhere"),
        "restart-always": cron(jobTemplate={"spec": {"template": template()}}),
        "history-negative": cron(successfulJobsHistoryLimit=-1),
        "long-name": {**cron(), "metadata": {"name": "c" * 53}},
    }
    made = [post(f"{BATCH}/jobs", job())]
    return [
        *(
            case(f"create-jobs-{name}", post(f"{BATCH}/jobs?dryRun=All", body))
            for name, body in stored.items()
        ),
        *(
            case(f"create-cronjobs-{name}", post(f"{BATCH}/cronjobs?dryRun=All", body))
            for name, body in crons.items()
        ),
        case(
            "change-jobs-template",
            patch(
                f"{BATCH}/jobs/j",
                {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "j"}]}}}},
            ),
            before=[post(f"{BATCH}/jobs", job(suspend=False, parallelism=0))],
        ),
        case(
            "change-jobs-completions",
            patch(f"{BATCH}/jobs/j", {"spec": {"completions": 5}}),
            before=made,
        ),
        case(
            "change-jobs-unknown-strict",
            post(f"{BATCH}/jobs?fieldValidation=Strict", {**job(), "hue": 1}),
        ),
        case(
            "change-cronjobs-suspend",
            patch(f"{BATCH}/cronjobs/c", {"spec": {"suspend": False}}),
            before=[post(f"{BATCH}/cronjobs", cron())],
        ),
        case(
            "change-cronjobs-schedule",
            patch(f"{BATCH}/cronjobs/c", {"spec": {"schedule": "x"}}),
            before=[post(f"{BATCH}/cronjobs", cron())],
        ),
    ]


CASES = [
    *(one for kind in KINDS for one in creations(kind)),
    *strategies(),
    *changes(),
    *scales(),
    *jobs(),
]
