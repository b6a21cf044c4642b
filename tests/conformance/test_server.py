"""Recorded requests on pods, sent to the sandbox's API server over HTTP."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fixed_clock import FixedClock
from recorded_cases import Recorded, answer, body_of, recorded
from recorded_cluster import call, furnish, pod_before, quota
from sandbox.apiserver.auth import ADMIN
from sandbox.apiserver.server import ApiServer
from sandbox.objects.resources import PODS, RESOURCE_QUOTAS
from sandbox.objects.store import Store
from sandbox.patching.apply import copied

NOW = datetime(2026, 11, 21, 8, 25, tzinfo=UTC)
TOKEN = "token"
# Checks of a node's features and operating system, which the sandbox lacks.
OUT_OF_SCOPE = {
    "resize-403-unsupported-platform",
    "resize-init-container-plain-old-node",
    "resize-pod-level-old-node",
}


def stored_before(case: Recorded) -> dict[str, Any] | None:
    """Return the pod before the request; if it wasn't recorded, derive it from the recording."""
    if "before" in case.raw:
        return pod_before(case)
    if case.status == 404 or case.method == "POST":
        return None
    pod = copied(case.body if case.method == "PUT" else case.response)
    if pod["kind"] != "Pod":
        [pod] = [
            copied(one.response) for one in recorded("pod-patch-annotation") if one.status == 200
        ]
    meta = pod["metadata"]
    meta["name"] = case.path[6]
    if case.method == "PUT":
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
        meta["generation"] = 1
    meta.pop("managedFields", None)
    if case.case.startswith("pod-patch-annotation"):
        meta.pop("annotations", None)
    return pod


def request_body(case: Recorded, version: int) -> bytes:
    """Return the body, with the recorded version replaced by the current one of the pod here."""
    if case.method == "GET":
        return b""
    if case.case not in ("resize-put", "pod-put-resources"):
        return body_of(case)
    body = copied(case.body)
    body["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode(body)


async def replay(case: Recorded) -> tuple[int, Any]:
    store = Store()
    api = ApiServer(store, case.version, FixedClock(NOW))
    api.authenticator.issue(ADMIN, token=TOKEN)
    furnish(store)
    used = {"resize-quota-increase-again": "50m", "resize-quota-decrease": "400m"}
    cpu = used.get(case.case, "400m" if case.case.startswith("pod-create") else "100m")
    store.create(RESOURCE_QUOTAS, quota(cpu))
    pod = stored_before(case)
    version = store.create(PODS, pod).version if pod is not None else 0
    status, _, response = await call(
        api,
        case.method,
        case.raw["request"]["path"],
        request_body(case, version),
        token=TOKEN,
        content_type=case.content_type,
    )
    return status, response


def comparable(case: Recorded, status: int, response: Any) -> Any:
    result = {"status": status, **answer(response)}
    if case.case in ("pod-patch-resources", "pod-put-resources"):
        # A real server appends a diff.
        result["message"] = result["message"].partition("\n")[0]
        result["details"] = result["details"]["causes"][0]["field"]
    if case.case.startswith("resize-pod-level") and not case.own:
        # The recording has no pod-level resources.
        return status, result["containers"]
    return result


@pytest.mark.parametrize("minor", [33, 35, 36])
def test_recorded_requests(minor: int) -> None:
    found = [*recorded("resize-", minor), *recorded("pod-", minor)]
    cases = [case for case in found if case.case not in OUT_OF_SCOPE]
    wrong = []
    for case in cases:
        status, response = asyncio.run(replay(case))
        got = comparable(case, status, response)
        want = comparable(case, case.status, case.response)
        if got != want:
            wrong.append(f"{case.id}:\n  got  {got}\n  want {want}")
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong)
    assert len(cases) > 80
