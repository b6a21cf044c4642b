"""Pods created from the templates of controllers, for dry runs of replacements (X112)."""

from typing import Any

import pytest

from builders import pod
from common.target.owners import Controller
from updater.actuation import TemplatePods, pod_of_template


def test_the_pod_is_created_from_the_template() -> None:
    owner = {
        "metadata": {"name": "web", "uid": "uid-of-web"},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"team": "shop"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}], "nodeSelector": {}},
            }
        },
    }
    controller = Controller("default", "ReplicaSet", "web", "apps/v1")
    old = pod(labels={"app": "old", "apps.kubernetes.io/pod-index": "0", "by-hand": "yes"})
    assert pod_of_template(owner, old, controller) == {
        "metadata": {
            "generateName": "web-",
            "namespace": "default",
            "labels": {"app": "web", "apps.kubernetes.io/pod-index": "0"},
            "annotations": {"team": "shop"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "uid-of-web",
                    "controller": True,
                }
            ],
        },
        "spec": owner["spec"]["template"]["spec"],  # type: ignore[index]  # an object as JSON
    }


def claim(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def test_the_pod_of_a_stateful_set_has_its_claims_and_its_name() -> None:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "config")]
    spec = {
        "containers": [{"name": "app", "image": "db:1", "volumeMounts": mounts}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "emptyDir": {}}],
    }
    owner = {
        "metadata": {"name": "db", "uid": "uid-of-db"},
        "spec": {
            "serviceName": "db-peers",
            "template": {"spec": spec},
            "volumeClaimTemplates": [claim("data"), claim("logs")],
        },
    }
    made = pod_of_template(owner, pod("db-1"), Controller("default", "StatefulSet", "db"))
    assert made["spec"] == {
        "containers": spec["containers"],
        "hostname": "db-1",
        "subdomain": "db-peers",
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}},
            {"name": "logs", "persistentVolumeClaim": {"claimName": "logs-db-1"}},
            {"name": "config", "emptyDir": {}},
        ],
    }


KINDS = {
    ("ReplicaSet", "apps/v1"): True,
    ("StatefulSet", "apps/v1"): True,
    ("DaemonSet", "apps/v1"): True,
    ("Job", "batch/v1"): True,
    ("ReplicationController", "v1"): True,
    ("CronJob", "batch/v1"): False,
    ("CloneSet", "apps.kruise.io/v1"): False,
    ("Job", "batch.volcano.sh/v1"): False,
}


@pytest.mark.parametrize(("kind", "want"), KINDS.items())
def test_kinds_with_a_template(kind: tuple[str, str], *, want: bool) -> None:
    controller = Controller("default", kind[0], "web", kind[1])
    assert TemplatePods.supports(None, controller) is want  # type: ignore[arg-type]  # self is unused
