"""Odd pods: one broken rule after the other, and what is only warned of."""

from collections.abc import Callable
from typing import Any

from recorded_requests.case import (
    APPS,
    PODS,
    Case,
    Object,
    case,
    container,
    pod,
    post,
    template,
    workload,
)

HTTP = {"httpGet": {"path": "/", "port": 80}}
MOUNT = {"name": "v", "mountPath": "/v"}
EMPTY = [{"name": "v", "emptyDir": {}}]
CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
CLAIMS = [{"name": "c", "resourceClaimName": "x"}]


def holding(**fields: Any) -> Object:
    """A pod with one container."""
    return pod("p", container(**fields))


def described(**fields: Any) -> Object:
    """A pod with something in its spec."""
    return pod("p", container(), **fields)


def probed(**fields: Any) -> Object:
    return holding(livenessProbe=fields)


def told(**source: Any) -> Object:
    """A pod with a variable that comes from somewhere."""
    return holding(env=[{"name": "A", "valueFrom": source}])


def field(path: str) -> Object:
    return told(fieldRef={"fieldPath": path})


def mounting(*mounts: Object) -> Object:
    return pod("p", container(volumeMounts=list(mounts)), volumes=EMPTY)


def volume(**fields: Any) -> Object:
    return described(volumes=[{"name": "v", **fields}])


def tolerant(**fields: Any) -> Object:
    return described(tolerations=[{"key": "a", "operator": "Exists", **fields}])


def spread(**fields: Any) -> Object:
    whole = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
    return described(topologySpreadConstraints=[{**whole, **fields}])


def ports() -> dict[str, Object]:
    one, two = {"containerPort": 1}, {"containerPort": 2}
    return {
        "port-none": holding(ports=[{"name": "a"}]),
        "port-name-long": holding(ports=[{**one, "name": "a-name-that-is-too-long"}]),
        "port-name-upper": holding(ports=[{**one, "name": "A_"}]),
        "port-name-digits": holding(ports=[{**one, "name": "12"}]),
        "port-name-hyphens": holding(ports=[{**one, "name": "-a--b-"}]),
        "port-host-bad": holding(ports=[{**one, "hostPort": 70000}]),
        "port-host-twice": pod(
            "p",
            container("a", ports=[{**one, "hostPort": 80}]),
            container("b", ports=[{**two, "hostPort": 80}]),
        ),
        "port-host-network": pod("p", container(ports=[{**one, "hostPort": 2}]), hostNetwork=True),
        "port-twice": pod(
            "p",
            container("a", ports=[{**one, "name": "x"}]),
            container("b", ports=[{**one, "name": "x"}]),
        ),
        "port-overlap": pod(
            "p", container("a", ports=[{**one, "hostPort": 3}]), container("b", ports=[one])
        ),
    }


def variables() -> dict[str, Object]:
    name = {"fieldPath": "metadata.name"}
    key = {"name": "s", "key": "k"}
    return {
        "env-equals": holding(env=[{"name": "a=b", "value": "x"}]),
        "env-umlaut": holding(env=[{"name": "ä", "value": "x"}]),
        "env-no-source": told(),
        "env-two-sources": told(fieldRef=name, secretKeyRef=key),
        "env-both": holding(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": name}}]),
        "env-field-unknown": field("spec.nothing"),
        "env-field-phase": field("status.phase"),
        "env-field-labels": field("metadata.labels"),
        "env-field-label": field("metadata.labels['a']"),
        "env-field-label-bad": field("metadata.labels['a b']"),
        "env-field-subscript": field("spec.x['a']"),
        "env-field-empty": field(""),
        "env-key-none": told(secretKeyRef={"name": "s", "key": ""}),
        "env-key-no-name": told(configMapKeyRef={"key": "k"}),
        "env-key-bad": told(configMapKeyRef={"name": "s", "key": "k/k"}),
        "env-resource": told(resourceFieldRef={"resource": "limits.cpu"}),
        "env-resource-bad": told(resourceFieldRef={"resource": "limits.x"}),
        "env-from-none": holding(envFrom=[{}]),
        "env-from-two": holding(
            envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]
        ),
        "env-from-no-name": holding(envFrom=[{"configMapRef": {}}]),
        "env-from-prefix": holding(envFrom=[{"prefix": "a=", "configMapRef": {"name": "a"}}]),
    }


def volumes() -> dict[str, Object]:
    device = {"name": "v", "devicePath": "/v"}
    items = [
        {"key": "", "path": "../x", "mode": 999},
        {"key": "k", "path": "..x"},
        {"key": "k", "path": "/x"},
        {"key": "k", "path": "a/../b"},
        {"key": "k"},
    ]
    return {
        "mount-no-path": mounting({"name": "v"}),
        "mount-no-name": mounting({"mountPath": "/v"}),
        "mount-twice": mounting(MOUNT, MOUNT),
        "mount-sub-path": mounting({**MOUNT, "subPath": "/a/../b"}),
        "mount-sub-both": mounting({**MOUNT, "subPath": "a", "subPathExpr": "b"}),
        "mount-propagation": mounting({**MOUNT, "mountPropagation": "Bidirectional"}),
        "mount-propagation-bad": mounting({**MOUNT, "mountPropagation": "X"}),
        "device-unknown": holding(volumeDevices=[device]),
        "device-no-claim": pod("p", container(volumeDevices=[device]), volumes=EMPTY),
        "device-no-path": pod("p", container(volumeDevices=[{"name": "v"}]), volumes=CLAIM),
        "device-and-mount": pod(
            "p", container(volumeDevices=[device], volumeMounts=[MOUNT]), volumes=CLAIM
        ),
        "volume-no-name": described(volumes=[{"emptyDir": {}}]),
        "volume-bad-name": volume(name="A", emptyDir={}),
        "volume-dots": volume(name="a.b", emptyDir={}),
        "volume-nothing": volume(),
        "volume-host-no-path": volume(hostPath={"path": ""}),
        "volume-host-back": volume(hostPath={"path": "/a/.."}),
        "volume-host-type": volume(hostPath={"path": "/a", "type": "X"}),
        "volume-secret-none": volume(secret={}),
        "volume-secret-mode": volume(secret={"secretName": "s", "defaultMode": 999}),
        "volume-map-none": volume(configMap={}),
        "volume-map-items": volume(configMap={"name": "a", "items": items}),
        "volume-claim-none": volume(persistentVolumeClaim={"claimName": ""}),
        "volume-nfs": volume(nfs={"server": "", "path": "x"}),
        "volume-projected-mode": volume(projected={"defaultMode": 999, "sources": []}),
        "volume-downward": volume(
            downwardAPI={"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.labels"}}]}
        ),
    }


def probes() -> dict[str, Object]:
    negative = {
        "initialDelaySeconds": -1,
        "timeoutSeconds": -1,
        "periodSeconds": -1,
        "successThreshold": -1,
        "failureThreshold": -1,
    }
    return {
        "probe-two": probed(**HTTP, exec={"command": ["x"]}),
        "probe-exec-empty": probed(exec={}),
        "probe-port-zero": probed(httpGet={"path": "/"}),
        "probe-port-name": probed(httpGet={"path": "/", "port": "A B"}),
        "probe-port-name-good": probed(httpGet={"path": "/", "port": "http"}),
        "probe-scheme": probed(httpGet={"port": 1, "scheme": "X"}),
        "probe-negative": probed(**HTTP, **negative),
        "probe-success": probed(**HTTP, successThreshold=2),
        "probe-grace-zero": probed(**HTTP, terminationGracePeriodSeconds=0),
        "probe-readiness-grace": holding(
            readinessProbe={**HTTP, "terminationGracePeriodSeconds": 1}
        ),
        "probe-tcp": probed(tcpSocket={"port": 70000}),
        "probe-grpc": probed(grpc={"port": 0}),
        "probe-grpc-good": probed(grpc={"port": 1}),
        "probe-startup": holding(startupProbe={**HTTP, "successThreshold": 2}),
        "lifecycle-none": holding(lifecycle={"preStop": {}}),
        "lifecycle-sleep": holding(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        "lifecycle-sleep-zero": holding(lifecycle={"preStop": {"sleep": {"seconds": 0}}}),
    }


def containers() -> dict[str, Object]:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
    return {
        "init-probe": described(initContainers=[container("i", livenessProbe=HTTP, lifecycle={})]),
        "init-restart": described(initContainers=[container("i", restartPolicy="X")]),
        "init-restart-never": described(initContainers=[container("i", restartPolicy="Never")]),
        "container-restart": holding(restartPolicy="Always"),
        "container-restart-bad": holding(restartPolicy="X"),
        "container-restart-rules": holding(restartPolicyRules=rules),
        "message-policy": holding(terminationMessagePolicy="X"),
        "name-long": pod("p", container("a" * 64)),
        "name-dots": pod("p", container("a.b")),
        "image-space": holding(image=" x"),
        "user-negative": holding(securityContext={"runAsUser": -1, "runAsGroup": -1}),
        "claim-used": pod(
            "p", container(resources={"claims": [{"name": "c"}] * 2}), resourceClaims=CLAIMS
        ),
        "claim-unknown": pod(
            "p",
            container(resources={"claims": [{"name": "d"}, {"name": ""}]}),
            resourceClaims=CLAIMS,
        ),
        "extended-bad": holding(resources={"limits": {"a b/c": "1"}}),
        "extended-requests": holding(resources={"limits": {"requests.a/b": "1"}}),
        "native": holding(resources={"limits": {"kubernetes.io/x": "1"}}),
        "hugepages": holding(resources={"limits": {"hugepages-2Mi": "4Mi"}}),
        "fraction": holding(resources={"limits": {"memory": "1500m"}}),
    }


def specs() -> dict[str, Object]:
    return {
        "pod-user-negative": described(securityContext={"runAsUser": -1, "fsGroup": -1}),
        "dns-policy": described(dnsPolicy="X"),
        "readiness-gate": described(readinessGates=[{"conditionType": "a b"}]),
        "gates-twice": described(schedulingGates=[{"name": "a"}] * 2),
        "gate-bad": described(schedulingGates=[{"name": "a b"}]),
        "gate-and-node": described(schedulingGates=[{"name": "a"}], nodeName="n"),
        "spread-bad": spread(maxSkew=0, topologyKey="", whenUnsatisfiable="X"),
        "spread-selector": spread(labelSelector={"matchLabels": {"a b": "c"}}),
        "spread-domains": spread(whenUnsatisfiable="ScheduleAnyway", minDomains=0),
        "spread-twice": described(
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
            ]
            * 2
        ),
        "account-bad": described(serviceAccountName="A b"),
        "node-bad": described(nodeName="A b"),
        "deadline-zero": described(activeDeadlineSeconds=0),
        "hostname-bad": described(hostname="A", subdomain="B."),
        "toleration-key": tolerant(key="a b"),
        "toleration-seconds": tolerant(tolerationSeconds=1),
        "toleration-value": tolerant(value="x"),
        "toleration-equal": tolerant(operator="Equal", value="x y"),
        "toleration-effect": tolerant(effect="X"),
        "toleration-less": tolerant(operator="Lt", value="5"),
        "priority-name": described(priorityClassName="A b"),
        "priority-number": described(priority=5),
        "priority-policy": described(preemptionPolicy="Never"),
        "priority-policy-bad": described(preemptionPolicy="X"),
        "overhead": described(overhead={"cpu": "-1"}),
        "claims": described(resourceClaims=CLAIMS),
        "pod-claims": described(resources={"claims": [{"name": "c"}]}),
        "secrets-twice": described(imagePullSecrets=[{"name": "a"}, {"name": "a"}, {}]),
        "ephemeral": described(ephemeralContainers=[{"name": "e", "image": "i"}]),
        "host-users": described(hostUsers=False, hostNetwork=True),
        "node-selector-value": described(nodeSelector={"a": "b c"}),
        "dotted": pod("a.b"),
        "owner-none": pod(meta={"ownerReferences": [{}]}),
        "owner-event": pod(
            meta={
                "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u"}]
            }
        ),
        "finalizer-bad": pod(meta={"finalizers": ["a b/c"]}),
        "finalizers-both": pod(meta={"finalizers": ["orphan", "foregroundDeletion"]}),
        "label-long": pod(meta={"labels": {"a" * 64: "b"}}),
        "label-value-long": pod(meta={"labels": {"a": "b" * 64}}),
        "label-slashes": pod(meta={"labels": {"a/b/c": "d"}}),
        "label-no-prefix": pod(meta={"labels": {"/x": "y"}}),
        "label-bad-prefix": pod(meta={"labels": {"A_b/c": "d"}}),
    }


def templates() -> list[Case]:
    """The same rules for pods to be."""
    repeated = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    bodies = {
        "env-twice": template(container(env=repeated)),
        "unknown-volume": template(container(volumeMounts=[MOUNT])),
        "bad-name": template(container("A_")),
    }
    return [
        case(f"template-{name}", post(f"{APPS}/deployments", workload("w", template=body)))
        for name, body in bodies.items()
    ]


BODIES: tuple[Callable[[], dict[str, Object]], ...] = (
    ports,
    variables,
    volumes,
    probes,
    containers,
    specs,
)
CASES = [
    *(case(f"odd-{name}", post(PODS, body)) for made in BODIES for name, body in made().items()),
    *templates(),
]
