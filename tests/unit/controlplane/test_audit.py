"""Entries parsed from a real API server's audit log."""

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.audit import AuditFile, parse_entry


def line(**changes: Any) -> bytes:
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "0f7d",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/shop/pods/web-1/eviction",
        "verb": "create",
        "user": {
            "username": "system:serviceaccount:kube-system:vpa-updater",
            "groups": ["system:authenticated"],
        },
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "vpa-updater",
        "objectRef": {
            "resource": "pods",
            "namespace": "shop",
            "name": "web-1",
            "apiVersion": "v1",
            "subresource": "eviction",
        },
        "responseStatus": {"metadata": {}, "status": "Success", "code": 201},
        "requestReceivedTimestamp": "2026-01-02T12:00:00.000001Z",
        "stageTimestamp": "2026-01-02T12:00:00.250000Z",
        "annotations": {"authorization.k8s.io/decision": "allow"},
    }
    return json.dumps(event | changes).encode() + b"\n"


def test_an_answered_call_is_an_entry() -> None:
    entry = parse_entry(line())
    assert entry is not None
    assert entry.as_json() == {
        "time": "2026-01-02T12:00:00.250000Z",
        "verb": "create",
        "group": "",
        "resource": "pods",
        "subresource": "eviction",
        "namespace": "shop",
        "name": "web-1",
        "user": "system:serviceaccount:kube-system:vpa-updater",
        "userAgent": "vpa-updater",
        "code": 201,
        "denied": False,
    }


def test_refusals_by_rbac_are_distinguished_from_those_by_a_plugin() -> None:
    refused = {"responseStatus": {"status": "Failure", "code": 403}}
    by_plugin = parse_entry(line(**refused))
    by_roles = parse_entry(line(**refused, annotations={"authorization.k8s.io/decision": "forbid"}))
    assert by_plugin is not None
    assert not by_plugin.denied
    assert by_roles is not None
    assert by_roles.denied


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        pytest.param({"verb": "watch", "stage": "ResponseStarted"}, True, id="watch that starts"),
        pytest.param({"verb": "watch"}, False, id="watch that ends"),
        pytest.param(
            {"verb": "watch", "responseStatus": {"code": 403}}, True, id="watch that is refused"
        ),
        pytest.param({"objectRef": None, "verb": "get"}, False, id="no resource"),
        pytest.param({"responseStatus": None}, False, id="no answer"),
    ],
)
def test_each_call_counts_once(changes: dict[str, Any], counts: bool) -> None:  # noqa: FBT001 - an expectation
    assert (parse_entry(line(**changes)) is not None) is counts


def test_appended_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditFile(path)
    assert log.find({}) == ()
    whole = line()
    with path.open("wb") as file:
        file.write(whole + whole[:20])
    assert len(log.find({})) == 1
    with path.open("ab") as file:
        file.write(whole[20:] + line(verb="get"))
    assert len(log.find({})) == 3
    assert len(log.find({"verb": "create", "code": "201"})) == 2
