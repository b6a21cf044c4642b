"""The webhook configuration, field by field, and its registration."""

import asyncio
import base64
from typing import Any

import pytest

from admission import registration
from admission.registration import Registration
from admission.settings import AdmissionSettings
from common.errors import ConflictError, DecodeError, NotFoundError, ServerError
from common.flags import read_flags
from common.kube import ca_bundle
from common.kube.client import PatchType

PLAIN = Registration(service="vpa-webhook", namespace="kube-system", labels={})
CA = b"-----BEGIN CERTIFICATE-----"
ENCODED = base64.b64encode(CA).decode()


def test_the_whole_configuration() -> None:
    assert registration.configuration(PLAIN, CA) == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "vpa-webhook-config"},
        "webhooks": [
            {
                "name": "vpa.k8s.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {"namespace": "kube-system", "name": "vpa-webhook"},
                    "caBundle": ENCODED,
                },
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                    },
                    {
                        "operations": ["CREATE", "UPDATE"],
                        "apiGroups": ["autoscaling.k8s.io"],
                        "apiVersions": ["*"],
                        "resources": ["verticalpodautoscalers"],
                    },
                ],
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": 30,
                "namespaceSelector": {},
                "objectSelector": {
                    "matchExpressions": [
                        {
                            "key": "app",
                            "operator": "NotIn",
                            "values": [
                                "vpa-admission-controller",
                                "vpa-recommender",
                                "vpa-updater",
                            ],
                        }
                    ]
                },
            }
        ],
    }


def by_flags(*flags: str) -> dict[str, Any]:
    """Return the configuration for these flags, installed in the namespace vpa."""
    chosen = registration.of_settings(read_flags(AdmissionSettings, flags), namespace="vpa")
    return registration.configuration(chosen, CA)


def field(configuration: Any, path: str) -> Any:
    """Return the value at a path such as ``webhooks.0.timeoutSeconds``, or None."""
    found = configuration
    for key in path.split("."):
        found = found[int(key)] if isinstance(found, list) else found.get(key)
    return found


def of_namespaces(operator: str, *names: str) -> dict[str, Any]:
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(names)}]}


URL = ("--register-by-url", "--webhook-address=https://10.0.0.1", "--webhook-port=8000")
SERVICE = {"namespace": "vpa", "name": "vpa-webhook"}


@pytest.mark.parametrize(
    ("flags", "path", "want"),
    [
        # admission.md 9, row by row: each default, then the flags that change it
        ((), "metadata.name", "vpa-webhook-config"),
        ((), "metadata.labels", None),
        (("--webhook-labels=a:b, 'c':d",), "metadata.labels", {"a": "b", "c": "d"}),
        (("--webhook-labels=a:b,c",), "metadata.labels", None),
        (("--webhook-labels=a:b,:c",), "metadata.labels", None),
        ((), "webhooks.0.name", "vpa.k8s.io"),
        ((), "webhooks.0.failurePolicy", "Ignore"),
        (("--webhook-failure-policy-fail",), "webhooks.0.failurePolicy", "Fail"),
        (("--webhook-failure-policy-fail=false",), "webhooks.0.failurePolicy", "Ignore"),
        ((), "webhooks.0.timeoutSeconds", 30),
        (("--webhook-timeout-seconds=1",), "webhooks.0.timeoutSeconds", 1),
        ((), "webhooks.0.clientConfig", {"service": SERVICE, "caBundle": ENCODED}),
        (("--webhook-service=w",), "webhooks.0.clientConfig.service.name", "w"),
        (URL, "webhooks.0.clientConfig", {"url": "https://10.0.0.1:8000", "caBundle": ENCODED}),
        # Addresses without --register-by-url have no effect.
        (URL[1:], "webhooks.0.clientConfig.service", SERVICE),
        ((), "webhooks.0.namespaceSelector", {}),
        (
            ("--vpa-object-namespace=shop",),
            "webhooks.0.namespaceSelector",
            of_namespaces("In", "shop"),
        ),
        (
            ("--ignored-vpa-object-namespaces=a,b",),
            "webhooks.0.namespaceSelector",
            of_namespaces("NotIn", "a", "b"),
        ),
        (("--ignored-vpa-object-namespaces=",), "webhooks.0.namespaceSelector", {}),
        ((), "webhooks.0.matchPolicy", None),
        ((), "webhooks.0.reinvocationPolicy", None),
    ],
    ids=lambda value: " ".join(value) or "by default" if isinstance(value, tuple) else None,
)
def test_fields_by_flags(flags: tuple[str, ...], path: str, want: object) -> None:
    assert field(by_flags(*flags), path) == want


@pytest.mark.parametrize(
    ("flags", "host"),
    [
        ((), "vpa-webhook.vpa.svc"),
        (("--webhook-service=w",), "w.vpa.svc"),
        (URL, "10.0.0.1"),
        ((*URL, "--webhook-address=https://[::1]"), "::1"),
        ((*URL, "--webhook-address=https://vpa.example"), "vpa.example"),
    ],
)
def test_the_host_name_that_the_certificate_needs(flags: tuple[str, ...], host: str) -> None:
    assert (
        registration.of_settings(read_flags(AdmissionSettings, flags), namespace="vpa").host == host
    )


def test_without_a_bundle_the_field_is_absent() -> None:
    configuration = registration.configuration(PLAIN, b"")
    assert "caBundle" not in field(configuration, "webhooks.0.clientConfig")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", {}),
        (" ", {}),
        ("a:b", {"a": "b"}),
        (" a : b , c:d ", {"a": "b", "c": "d"}),
        ('"a:b,c:d"', {"a": "b", "c": "d"}),
        ("a:b:c", {"a": "b:c"}),
        ("a:", {"a": ""}),
    ],
)
def test_labels(text: str, labels: dict[str, str]) -> None:
    assert registration.parse_labels(text) == labels


@pytest.mark.parametrize("text", ["a", "a:b,c", ":b", "a:b,", "a=b"])
def test_malformed_labels(text: str) -> None:
    with pytest.raises(ValueError, match="key:value"):
        registration.parse_labels(text)


class FakeServer:
    """Stores one webhook configuration, and records the calls."""

    def __init__(self, there: dict[str, Any] | None, *, faster: bool = False) -> None:
        self.there = there
        self.faster = faster  # another replica creates it first
        self.calls: list[Any] = []

    async def get(self, _endpoint: object, name: str) -> dict[str, Any]:
        if self.there is None:
            raise NotFoundError(name)
        return self.there

    async def create(self, _endpoint: object, body: dict[str, Any]) -> dict[str, Any]:
        if self.faster:
            self.there = registration.configuration(PLAIN, b"theirs")
            raise ConflictError("exists")
        self.calls.append(("create", body))
        return body

    async def patch(
        self, _endpoint: object, name: str, patch: dict[str, Any], *, patch_type: PatchType
    ) -> dict[str, Any]:
        self.calls.append((patch_type, patch))
        return patch


WANTED = registration.configuration(PLAIN, CA)


async def register(server: Any, wanted: dict[str, Any] = WANTED) -> None:
    await registration.register(server, wanted)


async def test_the_first_registration_creates_the_configuration() -> None:
    server = FakeServer(None)
    await register(server)
    assert server.calls == [("create", WANTED)]


async def test_the_next_registration_patches_the_configuration() -> None:
    server = FakeServer(registration.configuration(PLAIN, b"old"))
    await register(server)
    ((kind, patch),) = server.calls
    assert kind is PatchType.MERGE
    assert patch["webhooks"] == WANTED["webhooks"]


async def test_a_configuration_that_another_replica_just_created_is_patched() -> None:
    server = FakeServer(None, faster=True)
    await register(server)
    ((kind, patch),) = server.calls
    assert kind is PatchType.MERGE
    assert patch["webhooks"] == WANTED["webhooks"]


async def test_without_an_own_bundle_the_stored_one_stays() -> None:
    server = FakeServer(WANTED)
    await register(server, registration.configuration(PLAIN, b""))
    ((_, patch),) = server.calls
    assert patch["webhooks"][0]["clientConfig"]["caBundle"] == ENCODED


async def patch_ca(server: Any, bundle: bytes) -> bool:
    return await ca_bundle.write(server, bundle)


async def test_a_new_authority_changes_only_the_bundle() -> None:
    server = FakeServer(WANTED | {"metadata": {"resourceVersion": "7"}})
    assert await patch_ca(server, b"new")
    bundle = base64.b64encode(b"new").decode()
    hooks = [{"name": "vpa.k8s.io", "clientConfig": {"caBundle": bundle}}]
    patch = {"metadata": {"resourceVersion": "7"}, "webhooks": hooks}
    assert server.calls == [(PatchType.STRATEGIC, patch)]


async def test_a_patch_contains_the_resource_version() -> None:
    server = FakeServer(WANTED | {"metadata": {"resourceVersion": "7"}})
    await register(server)
    ((_, patch),) = server.calls
    assert patch["metadata"] == {"resourceVersion": "7", "labels": {}}


async def test_a_configuration_without_our_webhook_is_not_patched() -> None:
    server = FakeServer({"metadata": {}, "webhooks": [{"name": "other.example"}]})
    assert not await patch_ca(server, b"new")
    assert server.calls == []


@pytest.mark.parametrize("bundle", [CA, b""], ids=["an unchanged bundle", "an empty file"])
async def test_an_unchanged_or_empty_bundle_is_not_sent(bundle: bytes) -> None:
    server = FakeServer(WANTED)
    assert not await patch_ca(server, bundle)
    assert server.calls == []


@pytest.mark.parametrize("error", [ServerError("busy"), DecodeError("not JSON")], ids=str)
async def test_registration_is_retried_until_it_succeeds(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def call() -> None:
        raise error

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await registration.until_accepted(call)
    assert [vars(record)["error"] for record in caplog.records] == [str(error)]
