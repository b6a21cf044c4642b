"""Bodies with something else where something belongs: refused or harmless, never a crash."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox_client import Api, api_server

JUNK: tuple[Any, ...] = (None, 5, "x", [None], {"a": 1})
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CONTAINER = {
    "name": "app",
    "image": "i",
    "resources": {"limits": {"cpu": "1"}},
    "env": [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    "envFrom": [{"prefix": "P", "configMapRef": {"name": "c"}}],
    "ports": [{"containerPort": 80, "hostPort": 80, "name": "http"}],
    "readinessProbe": {"httpGet": {"port": 1}},
    "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1},
    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "postStart": {"tcpSocket": {"port": 1}}},
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
    "volumeDevices": [{"name": "d", "devicePath": "/d"}],
    "securityContext": {"runAsUser": 1, "privileged": False},
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{"name": "init", "image": "i"}],
        "tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}],
        "volumes": [
            {"name": "v", "configMap": {"name": "x", "items": [{"key": "k", "path": "p"}]}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "h", "hostPath": {"path": "/h"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "readinessGates": [{"conditionType": "a"}],
        "schedulingGates": [{"name": "a"}],
        "imagePullSecrets": [{"name": "a"}],
        "nodeSelector": {"a": "b"},
        "securityContext": {"fsGroup": 1},
        "overhead": {"cpu": "1"},
        "hostNetwork": True,
    },
}
ENDING = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "OnFailure"}}
OWNER = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}
BODIES: dict[str, Any] = {
    "/api/v1/namespaces/golden/pods": {
        "metadata": {"labels": {"a": "b"}, "ownerReferences": [OWNER]},
        "spec": TEMPLATE["spec"],
    },
    "/apis/apps/v1/namespaces/golden/deployments": {
        "spec": {
            "replicas": 1,
            "selector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
            },
            "strategy": {"rollingUpdate": {"maxSurge": 1}},
            "template": TEMPLATE,
        }
    },
    "/apis/batch/v1/namespaces/golden/cronjobs": {
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ENDING}}}
    },
    "/api/v1/namespaces/golden/events": {
        "involvedObject": {"namespace": "golden", "name": "x"},
        "source": {"component": "c"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingComponent": "example.com/c",
        "reportingInstance": "c-0",
        "action": "Evict",
        "reason": "Evicted",
        "series": {"count": 1},
    },
    "/api/v1/nodes": {
        "spec": {"unschedulable": True},
        "status": {"capacity": {"cpu": 1}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "/api/v1/namespaces/golden/limitranges": {
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    },
    "/apis/coordination.k8s.io/v1/namespaces/golden/leases": {
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 1}
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "spec": {
            "group": "example.test",
            "scope": "Namespaced",
            "names": {"plural": "names", "kind": "Name", "shortNames": ["n"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "a": {"type": "string"},
                                "spec": {
                                    "type": "array",
                                    "items": {"type": "integer", "minimum": 1},
                                },
                            },
                        }
                    },
                    "subresources": {
                        "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b"}
                    },
                    "additionalPrinterColumns": [{"name": "A", "type": "date", "jsonPath": ".a"}],
                    "selectableFields": [{"jsonPath": ".a"}],
                }
            ],
        }
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {
        "rules": [
            {
                "verbs": ["get"],
                "apiGroups": [""],
                "resources": ["pods"],
                "resourceNames": ["p"],
            }
        ],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    },
    "/apis/rbac.authorization.k8s.io/v1/namespaces/golden/rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "golden", "name": "x"}],
    },
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a body."""
    if path:
        yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield from places(item, (*path, key))


def replaced(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(body)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


async def send_both_ways(api: Api, path: str, body: Any, good: Any) -> None:
    """Create with a body, and patch it onto a good object."""
    name = good["metadata"]["name"]
    made = await api("POST", path, body)
    assert made.status in (201, 400, 422), (body, made.body)
    if made.status == 201:
        assert (await api("GET", path, accept=TABLE)).status == 200
        await api("DELETE", f"{path}/{made.json['metadata']['name']}")
    await api.make(path, good)
    patched = await api.merge(f"{path}/{name}", body)
    assert patched.status in (200, 400, 409, 422), (body, patched.body)
    await api.merge(f"{path}/{name}/status", body)
    await api("DELETE", f"{path}/{name}")


@pytest.mark.parametrize("path", BODIES, ids=lambda path: str(path).rpartition("/")[2])
async def test_odd_bodies(path: str) -> None:
    name = "names.example.test" if path.endswith("definitions") else "name"
    good = {**BODIES[path], "metadata": {**BODIES[path].get("metadata", {}), "name": name}}
    async with api_server() as api:
        for place in places(good):
            for junk in JUNK:
                await send_both_ways(api, path, replaced(good, place, junk), good)


@pytest.mark.parametrize(
    ("path", "spec", "told"),
    [
        pytest.param(
            "pods",
            {"containers": "x"},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type "
            "[]v1.Container",
            id="a text for a list",
        ),
        pytest.param(
            "pods",
            {"nodeName": 5},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type "
            "string",
            id="a number for a text",
        ),
        pytest.param(
            "pods",
            {"containers": [{"ports": [{"containerPort": 1.5}]}]},
            "json: cannot unmarshal number 1.5 into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
            id="a fraction for a port",
        ),
        pytest.param(
            "pods",
            {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]},
            "json: cannot unmarshal bool into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
            id="a Boolean for the port of a probe",
        ),
        pytest.param(
            "pods",
            {"containers": [{"resources": {"limits": []}}]},
            "json: cannot unmarshal array into Go struct field "
            "ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
            id="a list for amounts",
        ),
        pytest.param(
            "pods",
            {"hostUsers": "no", "containers": []},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostUsers of type "
            "bool",
            id="a text for a Boolean",
        ),
        pytest.param(
            "persistentvolumeclaims",
            {"volumeName": 5},
            "json: cannot unmarshal number into Go struct field "
            "PersistentVolumeClaimSpec.spec.volumeName of type string",
            id="a field that nothing here looks at",
        ),
        pytest.param(
            "limitranges",
            {"limits": [{"max": {"cpu": True}}]},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a Boolean for a quantity",
        ),
    ],
)
async def test_the_refusal_names_the_place(path: str, spec: Any, told: str) -> None:
    async with api_server() as api:
        body = {"metadata": {"name": "x"}, "spec": spec}
        answer = await api("POST", f"/api/v1/namespaces/golden/{path}", body)
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
        assert answer.json["message"].endswith(f": {told}")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(b"{", "unexpected end of JSON input ({)", id="an end too soon"),
        pytest.param(
            b'{"a" 1}', """invalid character '1' after object key ({"a" 1})""", id="no colon"
        ),
        pytest.param(
            b'{"a":1,}',
            """invalid character '}' looking for beginning of object key string ({"a":1,})""",
            id="a comma too much in an object",
        ),
        pytest.param(
            b"[1,]",
            "invalid character ']' looking for beginning of value (5b312c5d)",
            id="a comma too much in a list",
        ),
        pytest.param(
            b'{"a":1 "b"}',
            """invalid character '"' after object key:value pair ({"a":1 "b"})""",
            id="no comma in an object",
        ),
        pytest.param(
            b"[1 2]",
            "invalid character '2' after array element (5b3120325d)",
            id="no comma in a list",
        ),
        pytest.param(
            b"{} x", "invalid character 'x' after top-level value ({} x)", id="more than an object"
        ),
        pytest.param(
            b"tru",
            "invalid character ' ' in literal true (expecting 'e') (747275)",
            id="a word too short",
        ),
    ],
)
async def test_what_is_no_json_is_told_in_the_words_of_go(body: bytes, told: str) -> None:
    async with api_server() as api:
        answer = await api("POST", "/api/v1/namespaces/golden/pods", body)
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
        assert answer.json["message"] == (
            "the object provided is unrecognized (must be of type Pod): couldn't get "
            f"version/kind; json parse error: {told}"
        )
