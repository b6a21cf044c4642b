"""The cells of ``kubectl get``."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox.apiserver.table_cells import plain
from sandbox.apiserver.tables import columns_of, definitions, row_of
from sandbox.objects.access_resources import ACCESS
from sandbox.objects.resources import BUILTIN

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR_AGO = "2026-01-01T11:00:00Z"
KINDS = {one.kind: one for one in (*BUILTIN, *ACCESS) if not one.stored_as}


def cell(kind: str, column: str, obj: dict[str, Any]) -> Any:
    columns = columns_of(KINDS[kind], None)
    meta = {"name": "x", "creationTimestamp": HOUR_AGO, **obj.pop("metadata", {})}
    cells = row_of({"kind": kind, "metadata": meta, **obj}, columns, NOW)
    return dict(zip((one.name for one in columns), cells, strict=True))[column]


def containers(*states: dict[str, Any], ready: bool = False) -> dict[str, Any]:
    listed = [{"name": "c", "ready": ready, "state": state} for state in states]
    return {"phase": "Running", "containerStatuses": listed}


def init(*states: dict[str, Any], **more: Any) -> dict[str, Any]:
    listed = [{"name": f"i{index}", "state": one, **more} for index, one in enumerate(states)]
    return {"phase": "Pending", "initContainerStatuses": listed}


DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
RUNNING: dict[str, Any] = {"running": {}}
CONTAINER = {"name": "c", "image": "i:1"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
TWO_INITS = {"initContainers": [{"name": "i0"}, {"name": "i1"}]}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, "", id="nothing known"),
        pytest.param({"phase": "Pending"}, "Pending", id="the phase"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, "Evicted", id="the pod's reason"),
        pytest.param(containers(RUNNING, ready=True), "Running", id="running"),
        pytest.param(
            containers({"waiting": {"reason": "CrashLoopBackOff"}}), "CrashLoopBackOff", id="waits"
        ),
        pytest.param(
            containers({"terminated": {"reason": "OOMKilled"}}), "OOMKilled", id="was killed"
        ),
        pytest.param(containers({"terminated": {"exitCode": 3}}), "ExitCode:3", id="exit code"),
        pytest.param(containers({"terminated": {"signal": 9}}), "Signal:9", id="signal"),
        pytest.param(
            {**containers(DONE, RUNNING, ready=True), **READY}, "Running", id="one of two is done"
        ),
        pytest.param(
            containers(DONE, RUNNING, ready=True), "NotReady", id="one of two is done, not ready"
        ),
        pytest.param(
            containers(DONE, {"terminated": {"exitCode": 2, "reason": "Error"}}),
            "Error",
            id="one of two has failed",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "SchedulingGated",
            id="gated",
        ),
        pytest.param(init(RUNNING), "Init:0/2", id="the first init container runs"),
        pytest.param(init(DONE, RUNNING), "Init:1/2", id="the second one runs"),
        pytest.param(
            init(DONE, {"waiting": {"reason": "PodInitializing"}}), "Init:1/2", id="is to start"
        ),
        pytest.param(
            init({"terminated": {"exitCode": 1, "reason": "Error"}}), "Init:Error", id="failed"
        ),
        pytest.param(init(DONE, DONE), "Pending", id="all done"),
    ],
)
def test_the_status_of_a_pod(status: dict[str, Any], want: str) -> None:
    assert cell("Pod", "Status", {"spec": TWO_INITS, "status": status}) == want


def test_a_pod_that_is_deleted_is_terminating_unless_it_has_ended() -> None:
    meta = {"deletionTimestamp": HOUR_AGO}
    going = {"metadata": meta, "status": {"phase": "Running"}}
    assert cell("Pod", "Status", going) == "Terminating"
    ended = {"metadata": meta, "status": {"phase": "Succeeded"}}
    assert cell("Pod", "Status", ended) == "Succeeded"


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(DONE, "3 (30m ago)", id="later"),
        pytest.param(RUNNING, "11 (30m ago)", id="while an init container runs"),
    ],
)
def test_restarts_count_sidecars_and_tell_the_last_end(state: dict[str, Any], want: str) -> None:
    finished = {"terminated": {"finishedAt": "2026-01-01T11:30:00Z"}}
    pod = {
        "spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]},
        "status": {
            "containerStatuses": [{"name": "c", "restartCount": 1}],
            "initContainerStatuses": [
                {"name": "s", "restartCount": 2, "lastState": finished, "started": True},
                {"name": "i", "restartCount": 9, "state": state},
            ],
        },
    }
    assert cell("Pod", "Restarts", pod) == want


CASES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("Node", "Status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready"),
    ("Node", "Status", {"spec": {"unschedulable": True}}, "Unknown,SchedulingDisabled"),
    (
        "Node",
        "Roles",
        {
            "metadata": {
                "labels": {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}
            }
        },
        "a,b",
    ),
    (
        "Node",
        "Status",
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        "NotReady",
    ),
    ("Node", "Roles", {}, "<none>"),
    (
        "Node",
        "Kernel-Version",
        {"status": {"nodeInfo": {"kernelVersion": "6", "architecture": "arm64"}}},
        "6 (arm64)",
    ),
    (
        "Pod",
        "Ready",
        {
            "spec": {
                "containers": [{"name": "c"}],
                "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
            },
            "status": {
                "initContainerStatuses": [{"name": "s", "started": True, "ready": True}],
            },
        },
        "1/2",
    ),
    ("Pod", "IP", {"status": {"podIPs": [{"ip": "10.0.0.1"}]}}, "10.0.0.1"),
    ("Pod", "IP", {}, "<none>"),
    (
        "Pod",
        "Readiness Gates",
        {
            "spec": {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
            "status": {"conditions": [{"type": "b", "status": "True"}]},
        },
        "1/2",
    ),
    ("Service", "External-IP", {"spec": {"type": "ClusterIP"}}, "<none>"),
    ("Service", "External-IP", {"spec": {"type": "LoadBalancer"}}, "<pending>"),
    (
        "Service",
        "External-IP",
        {"spec": {"type": "ExternalName", "externalName": "localhost"}},
        "localhost",
    ),
    (
        "EndpointSlice",
        "Endpoints",
        {"endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]},
        "10.0.0.1,10.0.0.2",
    ),
    ("EndpointSlice", "Ports", {"ports": [{"port": 80}, {"name": "web"}, {}]}, "80,web,*"),
    ("EndpointSlice", "Ports", {}, "<unset>"),
    (
        "ControllerRevision",
        "Controller",
        {
            "metadata": {
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "StatefulSet",
                        "name": "db",
                        "controller": True,
                    }
                ]
            }
        },
        "statefulset.apps/db",
    ),
    (
        "PersistentVolumeClaim",
        "Access Modes",
        {"spec": {"volumeName": "v"}, "status": {"accessModes": ["ReadWriteOnce"]}},
        "RWO",
    ),
    ("PersistentVolumeClaim", "Capacity", {"spec": {"volumeName": ""}}, ""),
    (
        "CronJob",
        "Images",
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}}},
        "i:1",
    ),
    ("CronJob", "Selector", {"spec": {}}, "<none>"),
    (
        "Service",
        "Port(s)",
        {"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]}},
        "80/TCP,53:30053/UDP",
    ),
    (
        "Endpoints",
        "Endpoints",
        {
            "subsets": [
                {"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 8}]}
            ]
        },
        "10.0.0.0:8,10.0.0.1:8,10.0.0.2:8 + 2 more...",
    ),
    ("Endpoints", "Endpoints", {}, "<none>"),
    (
        "Deployment",
        "Ready",
        {"spec": {"replicas": 3}, "status": {"readyReplicas": 2}},
        "2/3",
    ),
    (
        "Deployment",
        "Selector",
        {
            "spec": {
                "selector": {
                    "matchLabels": {"b": "2", "a": "1"},
                    "matchExpressions": [
                        {"key": "x", "operator": "In", "values": ["p", "q"]},
                        {"key": "y", "operator": "NotIn", "values": ["r"]},
                        {"key": "z", "operator": "Exists"},
                        {"key": "n", "operator": "DoesNotExist"},
                    ],
                }
            }
        },
        "a=1,b=2,x in (p,q),y notin (r),z,!n",
    ),
    ("ReplicationController", "Selector", {"spec": {"selector": {"a": "1"}}}, "a=1"),
    ("DaemonSet", "Node Selector", {}, "<none>"),
    ("Event", "Last Seen", {"lastTimestamp": HOUR_AGO}, "60m"),
    (
        "Event",
        "Last Seen",
        {"firstTimestamp": "2026-01-01T09:00:00Z", "lastTimestamp": HOUR_AGO, "count": 4},
        "60m",
    ),
    (
        "Event",
        "Last Seen",
        {"eventTime": HOUR_AGO, "series": {"count": 2, "lastObservedTime": HOUR_AGO}},
        "60m",
    ),
    ("Role", "Created At", {}, HOUR_AGO),
    ("RoleBinding", "Role", {"roleRef": {"kind": "Role", "name": "r"}}, "Role/r"),
    (
        "ClusterRoleBinding",
        "ServiceAccounts",
        {
            "subjects": [
                {"kind": "ServiceAccount", "namespace": "n", "name": "a"},
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "b"},
            ]
        },
        "n/a, n/b",
    ),
    ("Event", "Object", {"involvedObject": {"kind": "Pod", "name": "w"}}, "pod/w"),
    ("Event", "Source", {"source": {"component": "kubelet", "host": "n"}}, "kubelet, n"),
    ("Event", "Source", {"reportingComponent": "vpa-updater"}, "vpa-updater"),
    ("Event", "Count", {"count": 3}, 3),
    ("ConfigMap", "Data", {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, 3),
    ("Job", "Completions", {"spec": {"completions": 2}, "status": {"succeeded": 1}}, "1/2"),
    ("Job", "Completions", {"spec": {"parallelism": 3}}, "0/1 of 3"),
    ("Job", "Completions", {"spec": {"parallelism": 1}}, "0/1"),
    ("Job", "Status", {"spec": {"suspend": True}}, "Running"),
    (
        "Job",
        "Status",
        {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}},
        "Suspended",
    ),
    ("Job", "Status", {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "Failed"),
    ("Job", "Duration", {}, ""),
    (
        "Job",
        "Duration",
        {"status": {"startTime": HOUR_AGO, "completionTime": "2026-01-01T11:01:30Z"}},
        "90s",
    ),
    ("CronJob", "Last Schedule", {"status": {"lastScheduleTime": HOUR_AGO}}, "60m"),
    ("CronJob", "Last Schedule", {}, "<none>"),
    ("PodDisruptionBudget", "Min Available", {"spec": {"minAvailable": "50%"}}, "50%"),
    ("PodDisruptionBudget", "Max Unavailable", {}, "N/A"),
    (
        "ResourceQuota",
        "Request",
        {"status": {"hard": {"requests.cpu": "2", "limits.cpu": "4"}, "used": {}}},
        "requests.cpu: 0/2",
    ),
    ("APIService", "Service", {"spec": {}}, "Local"),
    ("APIService", "Available", {}, "Unknown"),
    ("Pod", "Age", {"metadata": {"creationTimestamp": "soon"}}, "<unknown>"),
]


@pytest.mark.parametrize(
    ("kind", "column", "obj", "want"),
    [pytest.param(*case, id=f"{case[0]} {case[1]}: {case[3]}") for case in CASES],
)
def test_cells(kind: str, column: str, obj: dict[str, Any], want: Any) -> None:
    assert cell(kind, column, obj) == want


def test_wide_columns_have_a_priority() -> None:
    listed = {one["name"]: one["priority"] for one in definitions(columns_of(KINDS["Pod"], None))}
    assert (listed["Status"], listed["Node"]) == (0, 1)


def test_kinds_without_columns_of_their_own_show_name_and_creation() -> None:
    assert [one.name for one in columns_of(KINDS["ClusterRole"], None)] == ["Name", "Created At"]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, "true"),
        (1.5, "1.5"),
        (["a", False], "[a false]"),
        ({"b": 1, "a": [2]}, "map[a:[2] b:1]"),
    ],
)
def test_values_that_are_no_texts_print_as_go_prints_them(value: Any, want: str) -> None:
    assert plain(value) == want
