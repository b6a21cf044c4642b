"""The sandbox calls admission webhooks as a real API server does: recorded cases, over HTTPS."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from certs.authority import Bundle, create, rsa_key
from common.runtime.clock import SystemClock
from https_hook import serving_hook
from recorded_cases import Recorded, answer, recorded, refusal
from sandbox.admission.chain import Admission, AdmissionRequest, Operation, UserInfo
from sandbox.errors import ApiError
from sandbox.objects.resources import (
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
)
from sandbox.objects.store import Store
from sandbox.patching.apply import copied
from sandbox.version import KubernetesVersion

Json = dict[str, Any]
Reply = Callable[[Json], Json | int | None]

NAME = "vpa.k8s.io"
OUT_OF_SCOPE = {
    "webhook-configuration": "a read of the configuration with its defaults",
    "webhook-reinvocation": "not simulated",
    "webhook-reinvocation-rounds": "not simulated",
    "webhook-resize": "a resize through the whole server",
    "webhook-mutates-resize": "a resize through the whole server",
    "webhook-warnings": "checked below",
}
OTHER_SENTENCES = {  # refused with the same code
    "webhook-patch-bad-quantity-ignore",
    "webhook-patch-missing-parent-ignore",
    "webhook-patch-without-type-fail",
    "webhook-unappliable-patch-ignore",
}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return _bundle()


def _bundle() -> Bundle:
    hosts = ["hook.kube-system.svc", "127.0.0.1"]
    now = SystemClock().now()
    return create(hosts, make_key=rsa_key, now=now, lifetime=timedelta(days=1))


@dataclass
class Hook:
    """An HTTPS webhook with the test's response, which records requests."""

    reply: Reply
    port: int = 0
    requests: list[Json] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.paths.append(request.path_qs)
        self.headers.append(dict(request.headers))
        review = msgspec.json.decode(await request.read())
        self.requests.append(review)
        reply = self.reply(review["request"])
        if reply is None:
            await asyncio.sleep(30)
        if isinstance(reply, int):
            return web.json_response({}, status=reply)
        return web.Response(body=msgspec.json.encode(reply))


@contextlib.asynccontextmanager
async def serving(reply: Reply, bundle: Bundle, folder: Path) -> AsyncIterator[Hook]:
    hook = Hook(reply)
    async with serving_hook(hook.handle, bundle.server, folder) as hook.port:
        yield hook


def allow(request: Json, **response: Any) -> Json:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": True, **response},
    }


def json_patch(*operations: Json) -> dict[str, str]:
    encoded = base64.b64encode(msgspec.json.encode(operations)).decode()
    return {"patchType": "JSONPatch", "patch": encoded}


def webhook(hook: Hook, bundle: Bundle, **changes: Any) -> Json:
    bundle_text = base64.b64encode(bundle.authority.certificate).decode()
    return {
        "name": NAME,
        "clientConfig": {"url": f"https://127.0.0.1:{hook.port}/", "caBundle": bundle_text},
        "rules": [
            {
                "operations": ["CREATE"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
            }
        ],
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"hook": "yes"}},
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
        **changes,
    }


def store_with(*webhooks: Json) -> Store:
    store = Store()
    store.create(NAMESPACES, {"metadata": {"name": "hooked", "labels": {"hook": "yes"}}})
    store.create(NAMESPACES, {"metadata": {"name": "plain"}})
    store.create(MUTATING_WEBHOOKS, {"metadata": {"name": "golden"}, "webhooks": list(webhooks)})
    return store


def creation(body: Json, **changes: Any) -> AdmissionRequest:
    pod = copied(body)
    pod["metadata"]["namespace"] = changes.get("namespace", "hooked")
    requests: dict[str, Any] = {
        "operation": Operation.CREATE,
        "resource": PODS,
        "user": UserInfo(username="admin"),
        "namespace": "hooked",
        "name": pod["metadata"].get("name", ""),
        "object": {"kind": "Pod", "apiVersion": "v1", **pod},
        **changes,
    }
    return AdmissionRequest(**requests)


async def admit(store: Store, requests: AdmissionRequest) -> Json | None:
    admission = Admission(store, KubernetesVersion(36), SystemClock())
    try:
        mutated = await admission.mutate(requests)
        admission.validate(requests)
    finally:
        await admission.close()
    return mutated


POD = {
    "metadata": {"name": "w"},
    "spec": {"containers": [{"name": "app", "image": "i", "resources": {}}]},
}


def recorded_reply(case: Recorded) -> Reply:
    """Return the response of the recorded webhook."""
    said = case.raw["webhookAnswer"]
    if isinstance(said, dict):
        return lambda request: allow(request, **said)
    if said == "HTTP 500":
        return lambda _: 500
    if said.startswith("uid mismatch"):
        return lambda request: allow(request, uid="wrong", allowed=said.endswith("true"))
    if said.startswith("v1beta1"):
        return lambda request: {
            **allow(request, allowed=False),
            "apiVersion": "admission.k8s.io/v1beta1",
        }
    if said.startswith("answers after"):
        return lambda _: None
    return allow


@pytest.mark.parametrize(
    "case",
    [case for case in recorded("webhook-") if case.case not in OUT_OF_SCOPE],
    ids=lambda case: case.case,
)
async def test_recorded_outcomes(case: Recorded, bundle: Bundle, tmp_path: Path) -> None:
    authority = _bundle() if case.case == "webhook-unknown-ca-fail" else bundle
    async with serving(recorded_reply(case), bundle, tmp_path) as hook:
        port = hook.port
        if case.case == "webhook-refused-fail":
            hook.port = 1
        changes: Json = {"failurePolicy": "Fail" if case.case.endswith("-fail") else "Ignore"}
        if "timeout" in case.case:
            changes["timeoutSeconds"] = 1
        store = store_with(webhook(hook, authority, **changes))
        try:
            got = answer({"kind": "Pod", **(await admit(store, creation(case.body)) or {})})
            want = {**answer(case.response), "generation": None}
        except ApiError as error:
            got, want = refusal(error), answer(case.response)
        requests = hook.requests[0]["request"]["uid"] if hook.requests else ""
    if case.case in OTHER_SENTENCES:
        assert got["code"] == want["code"] == 500
        return
    text = msgspec.json.encode(got).decode()
    recorded_text = msgspec.json.encode(want).decode()
    for ours in (f"127.0.0.1:{port}", "127.0.0.1:1"):
        text = text.replace(ours, "HOST")
    for theirs in ("127.0.0.1:30092", "127.0.0.1:26017"):
        recorded_text = recorded_text.replace(theirs, "HOST")
    if "expected response.uid" in recorded_text:
        text = text.replace(requests, "d7610fd9-b65b-45a9-b003-61caaea5054a")
    assert msgspec.json.decode(text) == msgspec.json.decode(recorded_text)


async def test_the_request_on_the_wire(bundle: Bundle, tmp_path: Path) -> None:
    [case] = recorded("review-create-direct-pod")
    async with serving(allow, bundle, tmp_path) as hook:
        await admit(store_with(webhook(hook, bundle)), creation(POD))
        assert hook.paths == [case.raw["review"]["path"]]
        for name in ("User-Agent", "Accept", "Content-Type", "Accept-Encoding"):
            assert hook.headers[0][name] == case.raw["review"]["headers"][name]


async def test_warnings_are_collected(bundle: Bundle, tmp_path: Path) -> None:
    [case] = recorded("webhook-warnings")
    async with serving(recorded_reply(case), bundle, tmp_path) as hook:
        requests = creation(case.body)
        await admit(store_with(webhook(hook, bundle)), requests)
    assert requests.warnings == ["first warning", "second, longer warning"]


SKIPPED: dict[str, tuple[Json, Json]] = {
    "another namespace": ({}, {"namespace": "plain"}),
    "another operation": ({}, {"operation": Operation.UPDATE}),
    "a subresource": ({}, {"subresource": "resize", "operation": Operation.CREATE}),
    "other labels": ({"objectSelector": {"matchLabels": {"a": "b"}}}, {}),
    "another resource": ({}, {"resource": LIMIT_RANGES}),
}


@pytest.mark.parametrize("name", SKIPPED)
async def test_webhooks_that_do_not_match_are_not_called(
    name: str, bundle: Bundle, tmp_path: Path
) -> None:
    changes, request = SKIPPED[name]
    async with serving(allow, bundle, tmp_path) as hook:
        await admit(store_with(webhook(hook, bundle, **changes)), creation(POD, **request))
        assert hook.requests == []


async def test_a_dry_run_needs_a_webhook_without_side_effects(
    bundle: Bundle, tmp_path: Path
) -> None:
    async with serving(allow, bundle, tmp_path) as hook:
        await admit(store_with(webhook(hook, bundle)), creation(POD, dry_run=True))
        assert hook.requests[0]["request"]["dryRun"] is True
        one = webhook(hook, bundle, sideEffects="Unknown")
        with pytest.raises(ApiError) as caught:
            await admit(store_with(one), creation(POD, dry_run=True))
    assert caught.value.code == 400
    assert caught.value.message == f'admission webhook "{NAME}" does not support dry run'


def test_out_of_scope_names_exist() -> None:
    assert set(OUT_OF_SCOPE) <= {case.case for case in recorded("webhook-")}
