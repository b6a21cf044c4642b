"""``python -P -m admission`` as its own process, with a fake API server."""

import asyncio
import base64
import json
import signal
from datetime import timedelta
from pathlib import Path

from admission_process import (
    LEASES,
    POD,
    WEBHOOK,
    WEBHOOKS,
    prepare,
    running,
)
from certificates import new_bundle
from certs.certificate_stores import Directory
from common.runtime.clock import SystemClock
from component import Process
from fake_api import TIMEOUT, FakeApi, Reply, named, status
from webhook_client import Connection
from webhook_harness import pod_request, vpa_request


async def test_the_process_serves_reviews_until_sigterm(tmp_path: Path) -> None:
    bundle = new_bundle()
    await Directory(tmp_path).save(bundle)
    trusted = bundle.authority.certificate
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path) as (admission, port):
            registered = (await api.asked(f"POST {WEBHOOKS}")).json()
            await api.asked(f"POST {LEASES}")
            assert await admission.get("/readyz") == (200, "OK")
            assert await admission.get("/health-check") == (200, "OK")
            (hook,) = registered["webhooks"]
            assert hook["clientConfig"] == {
                "url": f"https://127.0.0.1:{port}",
                "caBundle": base64.b64encode(trusted).decode(),
            }
            async with Connection.to(port, trusted) as connection:
                response = await connection.review(pod_request(POD, namespace="shop"))
                patch = json.loads(base64.b64decode(response["patch"]))
                assert {
                    "op": "add",
                    "path": "/spec/containers/0/resources/requests/cpu",
                    "value": "250m",
                } in patch
                assert not (await connection.review(vpa_request({"spec": {}})))["allowed"]
            _, metrics = await admission.get("/metrics")
            assert 'vpa_admission_controller_admission_pods_total{applied="true"} 1.0' in metrics
            name = 'vpa_admission_controller_webhook_registered{configuration="vpa-webhook-config"}'
            assert name in metrics
            ages = "vpa_admission_controller_cache_age_seconds"
            assert f'{ages}{{api_resource="verticalpodautoscalers"}}' in metrics
            admission.process.send_signal(signal.SIGTERM)
            assert await admission.ended() == 0


async def test_pods_are_unchanged_before_the_first_list(tmp_path: Path) -> None:
    bundle = new_bundle()
    await Directory(tmp_path).save(bundle)
    # Every list of this server is a 404.
    async with FakeApi() as api, running(api, tmp_path) as (admission, port):
        await admission.logged("listening")
        async with Connection.to(port, bundle.authority.certificate) as connection:
            response = await connection.review(pod_request(POD))
        assert response == {"uid": "u-1", "allowed": True}
        code, text = await admission.get("/readyz")
        assert (code, "caches" in text) == (503, True)
        assert await admission.get("/health-check") == (200, "OK")
        assert f"GET {WEBHOOK}" not in api.routes


async def test_new_certificates_are_served_and_the_registration_gets_the_authority(
    tmp_path: Path,
) -> None:
    old, new = new_bundle(), new_bundle()
    folder = Directory(tmp_path)
    await folder.save(old)
    async with FakeApi() as api:
        prepare(api)
        api.on(f"PATCH {WEBHOOK}", Reply(body=named("vpa-webhook-config")))
        async with running(api, tmp_path, "--reload-cert") as (admission, port):
            await admission.logged("webhook registered")
            await folder.save(new)
            patch = (await api.asked(f"PATCH {WEBHOOK}")).json()
            sent = base64.b64encode(new.authority.certificate).decode()
            assert patch["webhooks"][0]["clientConfig"] == {"caBundle": sent}
            await admission.logged("New certificate found, reloading")
            await admission.logged("New client CA found, reloading and patching webhook")
            await admission.logged("Successfully patched webhook with new client CA")
            async with Connection.to(port, new.authority.certificate) as connection:
                assert (await connection.review(pod_request(POD)))["allowed"]


async def wait_for_self_checks(admission: Process, result: str, times: int) -> None:
    """Wait until this many self-checks had a result, ``right`` or ``wrong``."""
    name = f'vpa_admission_controller_self_checks_total{{result="{result}"}} '
    async with asyncio.timeout(TIMEOUT):
        while True:
            _, metrics = await admission.get("/metrics")
            (line,) = (line for line in metrics.splitlines() if line.startswith(name))
            if float(line.removeprefix(name)) >= times:
                return
            await asyncio.sleep(0.05)  # another process sets no event here


async def test_the_lease_is_renewed_only_while_reviews_are_answered(tmp_path: Path) -> None:
    bundle, other = new_bundle(), new_bundle()
    await Directory(tmp_path).save(bundle)
    renewal = f"POST {LEASES}"
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path, "--reload-cert") as (admission, _):
            await api.asked(renewal)
            # API servers now trust another authority, so their reviews fail.
            (tmp_path / "caCert.pem").write_bytes(other.authority.certificate)
            await admission.logged("self-check failed")
            renewed = api.routes.count(renewal)
            await wait_for_self_checks(admission, "wrong", 5)
            assert await admission.get("/readyz") == (503, "not ready: self-check")
            assert await admission.get("/health-check") == (200, "OK")
            assert api.routes.count(renewal) == renewed
            assert len(admission.said("self-check failed")) == 1
            assert "certificate refused" in admission.said("self-check failed")[0]
            (tmp_path / "caCert.pem").write_bytes(bundle.authority.certificate)
            await admission.logged("self-check passes again")
            await api.asked(renewal, times=renewed + 1)
            assert await admission.get("/readyz") == (200, "OK")


async def test_the_lease_is_not_renewed_with_an_expired_certificate(tmp_path: Path) -> None:
    bundle = new_bundle(valid_from=SystemClock().now() - timedelta(days=3), days=1)
    await Directory(tmp_path).save(bundle)
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path) as (admission, _):
            await admission.logged("self-check failed")
            await wait_for_self_checks(admission, "wrong", 3)
            assert await admission.get("/readyz") == (503, "not ready: certificate, self-check")
            assert f"POST {LEASES}" not in api.routes


async def test_the_lease_waits_until_a_deleted_registration_is_back(tmp_path: Path) -> None:
    await Directory(tmp_path).save(new_bundle())
    renewal = f"POST {LEASES}"
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path) as (admission, _):
            created = (await api.asked(f"POST {WEBHOOKS}")).json()
            await api.asked(renewal)
            api.on(f"POST {WEBHOOKS}", status(403, "Forbidden"))
            api.on(f"GET {WEBHOOK}", status(404, "NotFound"))
            await admission.logged("webhook configuration not read or not restored")
            renewed = api.routes.count(renewal)
            await api.asked(f"POST {WEBHOOKS}", times=api.routes.count(f"POST {WEBHOOKS}") + 3)
            assert api.routes.count(renewal) == renewed
            assert await admission.get("/readyz") == (200, "OK")
            api.on(f"POST {WEBHOOKS}", Reply(status=201, keep=WEBHOOK))
            await admission.logged("webhook configuration was missing, created it again")
            assert (await api.asked(f"POST {WEBHOOKS}")).json() == created
            await api.asked(renewal, times=renewed + 1)


async def test_without_registration_nothing_is_restored(tmp_path: Path) -> None:
    await Directory(tmp_path).save(new_bundle())
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path, "--register-webhook=false"):
            await api.asked(f"POST {LEASES}", times=3)
    assert not any(WEBHOOKS in route for route in api.routes)


async def test_the_lease_is_not_renewed_without_a_registration(tmp_path: Path) -> None:
    bundle = new_bundle()
    await Directory(tmp_path).save(bundle)
    async with FakeApi() as api:
        prepare(api)
        api.on(f"POST {WEBHOOKS}", status(403, "Forbidden"))
        async with running(api, tmp_path) as (admission, _):
            await admission.logged("caches have synced")
            await wait_for_self_checks(admission, "right", 4)
            assert await admission.get("/readyz") == (200, "OK")
            assert len(admission.said("webhook configuration not accepted yet")) == 1
            assert f"POST {LEASES}" not in api.routes
