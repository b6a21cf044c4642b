"""The pod of the load mode, as a real API server serves one: two containers, seven kilobytes.

Two thirds of such a pod are fields that an autoscaler doesn't read: managedFields, environment,
probes, volumes, conditions, images.
"""

from typing import Any

from sandbox.load.layout import CONTAINERS
from sandbox.load.template import Template

_SETTINGS = ("DATABASE_HOST", "LOG_LEVEL", "HTTP_PORT")
_TOKEN = "kube-api-access-x7k2p"  # noqa: S105 - a volume's name


def _env() -> list[dict[str, Any]]:
    return [
        *({"name": name, "value": f"value of {name.lower()}"} for name in _SETTINGS),
        {
            "name": "POD_NAME",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        },
    ]


def _mounts() -> list[dict[str, Any]]:
    return [
        {"mountPath": "/etc/app", "name": "config", "readOnly": True},
        {
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "name": _TOKEN,
            "readOnly": True,
        },
    ]


def _probe(path: str) -> dict[str, Any]:
    return {
        "failureThreshold": 3,
        "httpGet": {"path": path, "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    }


def _container(number: int, name: str) -> dict[str, Any]:
    return {
        "env": _env(),
        "image": f"images.example/shop/{name}:1.27.3",
        "imagePullPolicy": "IfNotPresent",
        "name": name,
        "ports": [{"containerPort": 8080 + number, "name": name, "protocol": "TCP"}],
        "readinessProbe": _probe("/ready"),
        "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "NotRequired"},
        ],
        "resources": f"<<resources{number}>>",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": _mounts(),
    }


def _container_status(number: int, name: str) -> dict[str, Any]:
    digest = f"{number + 1:064x}"
    return {
        "allocatedResources": f"<<allocated{number}>>",
        "containerID": f"containerd://{digest}",
        "image": f"images.example/shop/{name}:1.27.3",
        "imageID": f"images.example/shop/{name}@sha256:{digest}",
        "lastState": {},
        "name": name,
        "ready": True,
        "resources": f"<<resources{number}>>",
        "restartCount": 0,
        "started": True,
        "state": {"running": {"startedAt": "<started>"}},
    }


def _condition(kind: str) -> dict[str, Any]:
    return {
        "lastProbeTime": None,
        "lastTransitionTime": "<started>",
        "observedGeneration": 1,
        "status": "True",
        "type": kind,
    }


def _entry(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": "Update",
        "time": "<started>",
        **more,
    }


def _named(*names: str) -> dict[str, Any]:
    return {f"f:{name}": {} for name in names}


def _creator() -> dict[str, Any]:
    container = {
        ".": {},
        "f:env": {
            ".": {},
            **{
                f'k:{{"name":"{name}"}}': {".": {}, **_named("name", "value")} for name in _SETTINGS
            },
        },
        **_named("image", "imagePullPolicy", "name", "readinessProbe"),
        **_named("resources", "terminationMessagePath"),
    }
    return {
        "f:metadata": {
            "f:generateName": {},
            "f:labels": {".": {}, **_named("app", "pod-template-hash", "team", "tier")},
            "f:ownerReferences": {".": {}, 'k:{"uid":"<group_uid>"}': {}},
        },
        "f:spec": {
            "f:containers": {f'k:{{"name":"{name}"}}': container for name in CONTAINERS},
            **_named("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName"),
            **_named("securityContext", "terminationGracePeriodSeconds", "volumes"),
        },
    }


def _kubelet() -> dict[str, Any]:
    conditions = {
        f'k:{{"type":"{kind}"}}': {".": {}, **_named("lastProbeTime", "status", "type")}
        for kind in ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")
    }
    status = _named("containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "podIPs")
    return {"f:status": {"f:conditions": conditions, **status, "f:startTime": {}}}


def _volumes() -> list[dict[str, Any]]:
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    ]
    return [
        {"configMap": {"defaultMode": 420, "name": "settings"}, "name": "config"},
        {"name": _TOKEN, "projected": {"defaultMode": 420, "sources": sources}},
    ]


POD = Template(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": "<<annotations>>",
            "creationTimestamp": "<started>",
            "generateName": "<group>-",
            "generation": "<<generation>>",
            "labels": {
                "app": "<app>",
                "pod-template-hash": "<hash>",
                "team": "<namespace>",
                "tier": "backend",
            },
            "managedFields": [
                _entry("kube-controller-manager", _creator()),
                "<<resizer>>",
                _entry("kubelet", _kubelet(), subresource="status"),
            ],
            "name": "<name>",
            "namespace": "<namespace>",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "ReplicaSet",
                    "name": "<group>",
                    "uid": "<group_uid>",
                }
            ],
            "resourceVersion": "<version>",
            "uid": "<uid>",
        },
        "spec": {
            "containers": [_container(number, name) for number, name in enumerate(CONTAINERS)],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": "<node>",
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {
                    "effect": "NoExecute",
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "volumes": _volumes(),
        },
        "status": {
            "conditions": [
                _condition(kind)
                for kind in (
                    *("PodReadyToStartContainers", "Initialized", "Ready"),
                    *("ContainersReady", "PodScheduled"),
                )
            ],
            "containerStatuses": [
                _container_status(number, name) for number, name in enumerate(CONTAINERS)
            ],
            "hostIP": "<host_ip>",
            "hostIPs": [{"ip": "<host_ip>"}],
            "observedGeneration": "<<generation>>",
            "phase": "Running",
            "podIP": "<ip>",
            "podIPs": [{"ip": "<ip>"}],
            "qosClass": "Burstable",
            "startTime": "<started>",
        },
    }
)
"""A running, ready pod."""

SCHEDULER = Template(
    _entry(
        "kube-scheduler",
        {"f:status": {"f:conditions": {".": {}, 'k:{"type":"PodScheduled"}': {}}}},
        subresource="status",
    )
)
"""An entry of managedFields that every pod has."""

RESIZER = Template(_entry("vpa-updater", {"f:spec": {"f:containers": {}}}, subresource="resize"))
"""The entry that comes behind it with a resize; its ``started`` is when that was."""
