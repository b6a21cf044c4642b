"""The cells of ``kubectl get``."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox.apiserver.tables import columns_of, definitions, row_of
from sandbox.objects.resources import BUILTIN

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR_AGO = "2026-01-01T11:00:00Z"
KINDS = {one.kind: one for one in BUILTIN}


def cell(kind: str, column: str, obj: dict[str, Any]) -> Any:
    columns = columns_of(KINDS[kind], None)
    meta = {"name": "x", "creationTimestamp": HOUR_AGO, **obj.pop("metadata", {})}
    cells = row_of({"kind": kind, "metadata": meta, **obj}, columns, NOW)
    return dict(zip((one.name for one in columns), cells, strict=True))[column]


def containers(*states: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": "c", "ready": "running" in one, "state": one} for one in states]
    return {"status": {"phase": "Running", "containerStatuses": listed}}


TWO = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
KILLED = {"terminated": {"reason": "OOMKilled"}}
LOOPS = {"waiting": {"reason": "CrashLoopBackOff"}}

CASES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("Pod", "Name", {}, "x"),
    ("Pod", "Age", {}, "60m"),
    ("Pod", "Age", {"metadata": {"creationTimestamp": "soon"}}, "<unknown>"),
    ("Pod", "Ready", {**TWO, **containers({"running": {}}, KILLED)}, "1/2"),
    ("Pod", "Status", {"status": {"phase": "Pending"}}, "Pending"),
    ("Pod", "Status", {"status": {"phase": "Failed", "reason": "OutOfcpu"}}, "OutOfcpu"),
    ("Pod", "Status", containers({"running": {}}), "Running"),
    ("Pod", "Status", containers({"running": {}}, LOOPS), "CrashLoopBackOff"),
    ("Pod", "Status", containers(KILLED), "OOMKilled"),
    ("Pod", "Status", {"metadata": {"deletionTimestamp": HOUR_AGO}}, "Terminating"),
    ("Pod", "Restarts", {"status": {"containerStatuses": [{"restartCount": 2}]}}, "2"),
    ("Pod", "IP", {}, "<none>"),
    ("Event", "Last Seen", {"lastTimestamp": HOUR_AGO}, "60m"),
    ("Event", "Object", {"involvedObject": {"kind": "Pod", "name": "w"}}, "pod/w"),
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


def test_other_kinds_show_name_and_age() -> None:
    assert [one.name for one in columns_of(KINDS["Secret"], None)] == ["Name", "Age"]
