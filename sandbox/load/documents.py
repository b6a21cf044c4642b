"""The objects of the load mode other than pods."""

from typing import Any

from sandbox.load.layout import CONTAINERS
from sandbox.load.template import Template

_APPS = "apps/v1"
_CPU_BUCKETS = range(20, 80)  # of a checkpoint's histograms: a long and varied life
_MEMORY_BUCKETS = range(60)
# Of memory peaks, so few that a new peak of each pod outweighs them: then a target follows usage.
_MEMORY_WEIGHT = 3.25


def _meta(
    *, name: str = "<app>", labels: dict[str, str] | None = None, owner: str = ""
) -> dict[str, Any]:
    """Metadata as a server stores it, with a manager's entry of managedFields."""
    fields: dict[str, Any] = {
        f"f:{field}": {} for field in ("labels", "replicas", "selector", "strategy")
    }
    meta: dict[str, Any] = {
        "creationTimestamp": "<started>",
        "generation": 1,
        "labels": labels or {"app": "<app>", "team": "<namespace>", "tier": "backend"},
        "managedFields": [
            {
                "apiVersion": _APPS,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": fields}, "f:spec": fields},
                "manager": manager,
                "operation": "Update",
                "time": "<started>",
            }
            for manager in ("kubectl-client-side-apply", "kube-controller-manager")
        ],
        "name": name,
        "namespace": "<namespace>",
        "resourceVersion": "<version>",
        "uid": "<uid>",
    }
    if owner:
        meta["ownerReferences"] = [
            {
                "apiVersion": _APPS,
                "blockOwnerDeletion": True,
                "controller": True,
                "kind": owner,
                "name": "<app>",
                "uid": "<owner_uid>",
            }
        ]
    return meta


def _pods(labels: dict[str, str]) -> dict[str, Any]:
    container = {
        "image": "images.example/shop/app:1.27.3",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    return {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{"name": name, **container} for name in CONTAINERS],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
        },
    }


_LABELS = {"app": "<app>", "team": "<namespace>", "tier": "backend"}
_GROUP_LABELS = {**_LABELS, "pod-template-hash": "<hash>"}
_COUNTS = {"availableReplicas": "<<replicas>>", "readyReplicas": "<<replicas>>"}

DEPLOYMENT = Template(
    {
        "apiVersion": _APPS,
        "kind": "Deployment",
        "metadata": _meta(),
        "spec": {
            "replicas": "<<replicas>>",
            "selector": {"matchLabels": {"app": "<app>"}},
            "strategy": {"type": "RollingUpdate"},
            "template": _pods(_LABELS),
        },
        "status": {
            "observedGeneration": 1,
            "replicas": "<<replicas>>",
            "updatedReplicas": "<<replicas>>",
            **_COUNTS,
        },
    }
)
REPLICA_SET = Template(
    {
        "apiVersion": _APPS,
        "kind": "ReplicaSet",
        "metadata": _meta(name="<group>", labels=_GROUP_LABELS, owner="Deployment"),
        "spec": {
            "replicas": "<<replicas>>",
            "selector": {"matchLabels": {"app": "<app>", "pod-template-hash": "<hash>"}},
            "template": _pods(_GROUP_LABELS),
        },
        "status": {"observedGeneration": 1, "replicas": "<<replicas>>", **_COUNTS},
    }
)
VPA = Template(
    {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": _meta(),
        "spec": {
            "resourcePolicy": {
                "containerPolicies": [
                    {
                        "containerName": "*",
                        "maxAllowed": {"cpu": "16", "memory": "64Gi"},
                        "minAllowed": {"cpu": "10m", "memory": "32Mi"},
                    }
                ]
            },
            "targetRef": {"apiVersion": _APPS, "kind": "Deployment", "name": "<app>"},
            "updatePolicy": {"updateMode": "<mode>"},
        },
        "status": "<<status>>",
    }
)


def _histogram(buckets: range, total: float) -> dict[str, Any]:
    middle, reach = (buckets.start + buckets.stop) // 2, len(buckets) // 2
    weights = {
        str(bucket): max(1, 10_000 - 9_990 * abs(bucket - middle) // reach) for bucket in buckets
    }
    return {
        "bucketWeights": weights,
        "referenceTimestamp": "<reference>",
        "totalWeight": total,
    }


CHECKPOINT = Template(
    {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": _meta(name="<app>-<container>"),
        "spec": {"containerName": "<container>", "vpaObjectName": "<app>"},
        "status": {
            "cpuHistogram": _histogram(_CPU_BUCKETS, 20_000.5),
            "firstSampleStart": "<first>",
            "lastSampleStart": "<reference>",
            "lastUpdateTime": "<reference>",
            "memoryHistogram": _histogram(_MEMORY_BUCKETS, _MEMORY_WEIGHT),
            "totalSamplesCount": 115_200,
            "version": "v3",
        },
    }
)
"""The history of one container: eight days, one sample a minute of ten pods."""

POD_METRICS = Template(
    {
        "metadata": {
            "creationTimestamp": "<now>",
            "labels": _GROUP_LABELS,
            "name": "<name>",
            "namespace": "<namespace>",
        },
        "timestamp": "<now>",
        "window": "15.034s",
        "containers": [
            {
                "name": name,
                "usage": {"cpu": f"<cpu{number}>n", "memory": f"<memory{number}>Ki"},
            }
            for number, name in enumerate(CONTAINERS)
        ],
    }
)
NODE = Template(
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "creationTimestamp": "<started>",
            "labels": {"kubernetes.io/hostname": "<node>", "kubernetes.io/os": "linux"},
            "name": "<node>",
            "resourceVersion": "<version>",
            "uid": "<uid>",
        },
        "spec": {},
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [{"status": "True", "type": "Ready"}],
        },
    }
)
