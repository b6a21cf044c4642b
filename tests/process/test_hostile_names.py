"""Hostile texts in objects: each process sends only expected requests, and logs valid lines.

There is one object for each text in each field. The fake API server also returns objects that a
real one would not store.
"""

import asyncio
import re
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from prometheus_client.parser import text_string_to_metric_families

import admission_process
from admission_process import LEASE, LEASES, WEBHOOK, WEBHOOKS
from certificates import new_bundle
from certs.certificate_stores import Directory
from common.api.autoscaling import UpdateMode
from common.kube import endpoints
from common.kube.endpoints import CHECKPOINTS, PODS, VPAS
from common.runtime.clock import SystemClock
from component import Process, running_component
from fake_api import TIMEOUT, FakeApi, Reply, listing, named
from hostile_texts import NEIGHBOURS
from recommender.checkpoints.checkpoint_annotations import SIDECAR, TARGET
from recommender.checkpoints.window_annotation import ANNOTATION as WINDOWS
from recommender_harness import (
    METRICS,
    checkpoint,
    deployment,
    pod,
    prepare,
    status_of,
    usage,
)
from recommender_harness import vpa as ordinary_vpa
from webhook_client import Connection
from webhook_harness import pod_request, vpa_request

GROUP = "/apis/example.test"
ROCKETS = f"{GROUP}/v1/namespaces/shop/rockets"
AMOUNTS = {"cpu": "1", "memory": "1Gi"}
TEXTS = tuple(NEIGHBOURS.values())
QUERY = {
    *("limit", "watch", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"),
    *("allowWatchBookmarks", "fieldSelector", "labelSelector", "continue", "sendInitialEvents"),
}
LOG_PREFIX = re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.py:\d+\] ")
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
LONGEST = 20_000  # characters of a line, with several values of 2,048


def vpas() -> list[Any]:
    """Return an ordinary VPA, and several with each text."""
    found = [ordinary_vpa("web")]
    for number, text in enumerate(TEXTS):
        for place, (api_version, kind, name) in {
            "version": (f"example.test/{text}", "Rocket", "r"),
            "group": (f"{text}/v1", "Rocket", "r"),
            "whole": (text, "Rocket", "r"),
            "kind": ("example.test/v1", text, "r"),
            "name": ("example.test/v1", "Rocket", text),
            "name of a known kind": ("apps/v1", "Deployment", text),
        }.items():
            made = named(f"vpa-{place.replace(' ', '-')}-{number}")
            target = {"apiVersion": api_version, "kind": kind, "name": name}
            policy = {"containerName": text, "mode": text, "controlledResources": [text]}
            made["spec"] = {
                "targetRef": target,
                "updatePolicy": {"updateMode": text},
                "resourcePolicy": {"containerPolicies": [policy]},
            }
            advice = {"containerName": text, "target": {**AMOUNTS, text: "1"}}
            condition = {"type": text, "status": text, "reason": text, "message": text}
            made["status"] = {
                "recommendation": {"containerRecommendations": [advice]},
                "conditions": [condition],
            }
            made["metadata"]["annotations"] = {text: text}
            found.append(made)
    return found


def owner(text: str, place: str) -> dict[str, Any]:
    """Return an owner reference with the text in one field."""
    usual = {"apiVersion": "example.test/v1", "kind": "Rocket", "name": "r", "uid": "u"}
    forms = {"apiVersion": f"{text}/v1"}
    return {**usual, place: forms.get(place, text), "controller": True}


def pods() -> list[Any]:
    """Return pods with the Deployment's labels; the first one has a container for each text."""
    found = [pod("web-1")]
    found[0]["spec"]["containers"] += [{"name": text} for text in TEXTS]
    for number, text in enumerate(TEXTS):
        for place in ("apiVersion", "kind", "name", "uid"):
            made = pod(f"pod-{place.lower()}-{number}")
            made["metadata"] |= {
                "ownerReferences": [owner(text, place)],
                "annotations": {
                    "vpaObservedContainers": text,
                    "vpaInPlaceUpdated": text,
                    f"vpaCpuStartupBoost/{text}": text,
                    "vpaCpuStartupBoost/app": text,
                },
            }
            made["spec"]["nodeName"] = text
            made["status"] |= {
                "startTime": "2026-01-01T00:00:00Z",
                "reason": text,
                "message": text,
                "containerStatuses": [{"name": text, "state": {"waiting": {"reason": text}}}],
                "conditions": [{"type": "Ready", "status": text, "reason": text}],
            }
            found.append(made)
    return found


def checkpoints() -> list[Any]:
    """Return checkpoints of containers with these names, some under another name.

    Every second container has none, and the recommender creates it.
    """
    found = []
    for text in TEXTS[::2]:
        made = checkpoint("web", text)
        windows = {
            "lastUpdateTime": made["status"]["lastUpdateTime"],
            "totalSamplesCount": made["status"]["totalSamplesCount"],
            "windows": [["0" * 15, 2**31, text, 0, 0]],
        }
        made["metadata"]["annotations"][WINDOWS] = msgspec.json.encode(windows).decode()
        found.append(made)
    for number, text in enumerate(TEXTS):
        other = checkpoint("web", f"of {text}", version=text)
        notes = dict.fromkeys((text, WINDOWS, SIDECAR, TARGET), text)
        other["metadata"] |= {"name": f"checkpoint-{number}", "annotations": notes}
        found.append(other)
        stray = checkpoint(text)
        stray["metadata"]["name"] = f"stray-{number}"
        found.append(stray)
    # The schema preserves unknown fields below the weights.
    deep = {"bucketWeights": {"0": msgspec.Raw(b"[" * 9900 + b"]" * 9900)}}
    found.append(checkpoint("web", "deep", cpuHistogram=deep))
    return found


def store_objects(api: FakeApi) -> None:
    """Let the API server return all objects, and serve a kind with a scale."""
    prepare(api, deployments=[deployment()], pods=pods(), verticalpodautoscalers=vpas())
    for endpoint in (endpoints.LIMIT_RANGES, endpoints.RESOURCE_QUOTAS, endpoints.NODES):
        held = [named(f"x-{number}", spec={"limits": []}) for number in range(len(TEXTS))]
        api.on(f"GET {endpoint.collection()}", listing(*held))
        api.on(f"WATCH {endpoint.collection()}", Reply(chunks=[], hold=True))
    used = usage(at=SystemClock().now())
    used["containers"] += [{"name": text, "usage": AMOUNTS} for text in TEXTS]
    api.on(METRICS, listing(used))
    api.on(f"GET {CHECKPOINTS.collection()}", listing(*checkpoints()))
    for text in TEXTS:
        path = f"{CHECKPOINTS.collection('shop')}/web-{text}"
        api.on(f"PATCH {path}", Reply(body=checkpoint("web", text)))
    resources = [
        {"name": name, "kind": "Scale" if name.endswith("scale") else "Rocket", "namespaced": True}
        for name in ("rockets", "rockets/scale")
    ]
    api.on(f"GET {GROUP}", Reply(body={"versions": [{"version": "v1"}]}))
    api.on(f"GET {GROUP}/v1", Reply(body={"resources": resources}))


def allowed_paths() -> set[str]:
    """Return the paths of allowed requests, as they are sent."""
    names = [made["metadata"]["name"] for made in vpas()]
    found = {GROUP, f"{GROUP}/v1", f"{ROCKETS}/r/scale"}
    found |= {VPAS.object(name, "shop", "status") for name in names}
    found |= {PODS.object(made["metadata"]["name"], "shop", "eviction") for made in pods()}
    found |= {CHECKPOINTS.collection("shop"), CHECKPOINTS.object("web-app", "shop")}
    found |= {endpoints.EVENTS.collection("shop")}
    for text in TEXTS:
        found.add(f"{CHECKPOINTS.collection('shop')}/web-{quote(text, safe='')}")
        if text not in (".", ".."):
            found.add(f"{ROCKETS}/{quote(text, safe='')}/scale")
    # The size of nodes, and whether an autoscaler adds some.
    found |= {
        "/apis/karpenter.sh/v1/nodepools?limit=500",
        "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status",
        "/apis/karpenter.sh",
        "/apis/autoscaling.x-k8s.io",
    }
    # Two of the texts are valid names of an API.
    long = NEIGHBOURS["250 characters"]
    return found | {"/apis/x", "/apis/x/y", f"/apis/{long}", f"/apis/{long}/v1"}


def check_requests(api: FakeApi, more: Collection[str] = ()) -> None:
    """Check that only expected paths were requested, and that only lists have queries."""
    lists = {
        route.partition(" ")[2] for route in api.routes if route.startswith(("GET ", "WATCH "))
    } & {
        one.collection() for one in vars(endpoints).values() if isinstance(one, endpoints.Endpoint)
    }
    plain = {each.target for each in api.requests if each.path not in lists}
    assert plain <= allowed_paths() | set(more)
    for each in api.requests:
        if each.path in lists:
            assert each.target.partition("?")[0] in lists
            assert each.query.keys() <= QUERY


def check_log(process: Process) -> None:
    """Check that each line has the log prefix, no control characters and a bounded length."""
    assert process.log
    for line in process.log:
        assert LOG_PREFIX.match(line), line[:500]
        assert not CONTROL_CHARACTERS.search(line.removesuffix("\n")), ascii(line[:500])
        assert len(line) < LONGEST


async def check_metrics(process: Process) -> None:
    """Check that the metrics are valid, and that no object caused an error."""
    code, page = await process.get("/metrics")
    assert code == 200
    families = list(text_string_to_metric_families(page))
    assert "forged" not in {family.name for family in families}
    modes = {
        sample.labels.get("update_mode", "") for family in families for sample in family.samples
    }
    assert modes <= {"", "Unknown", *UpdateMode}
    errors = [
        line for line in page.splitlines() if re.match(r"vpa_\w+_object_errors_total\{", line)
    ]
    assert errors == []
    assert await process.get("/health-check") == (200, "OK")


async def stop(process: Process) -> None:
    process.process.send_signal(signal.SIGTERM)
    assert await process.ended() == 0


async def wait_for_cycles(process: Process, count: int) -> None:
    async with asyncio.timeout(TIMEOUT):
        while await process.cycles() < count:  # noqa: ASYNC110 - another process sets no event here
            await asyncio.sleep(0.1)


def check_checkpoints(api: FakeApi) -> None:
    """Check that each container's checkpoint was patched, or created under its own name."""
    path = CHECKPOINTS.collection("shop")
    patched = {each.target for each in api.requests if each.method == "PATCH"}
    assert patched >= {f"{path}/web-{quote(text, safe='')}" for text in TEXTS[::2]}
    posts = [each for each in api.requests if (each.method, each.target) == ("POST", path)]
    created = {each.json()["metadata"]["name"] for each in posts}
    assert created >= {f"web-{text}" for text in TEXTS[1::2]}


VERBOSE = "-v=5"


async def test_the_recommender_requests_and_logs_valid_text(tmp_path: Path) -> None:
    flags = ("--recommender-interval=1s", "--kube-api-qps=1000", "--kube-api-burst=1000", VERBOSE)
    async with FakeApi() as api:
        store_objects(api)
        async with running_component("recommender", api, tmp_path, *flags) as process:
            await api.asked(status_of("web"), times=3)
            await api.asked(f"GET {ROCKETS}/{NEIGHBOURS['query']}/scale")
            await check_metrics(process)
            await stop(process)  # which writes all changes
            check_checkpoints(api)
            check_log(process)
            check_requests(api)


async def test_the_updater_requests_and_logs_valid_text(tmp_path: Path) -> None:
    flags = ("--updater-interval=300ms", "--use-admission-controller-status=false", VERBOSE)
    async with FakeApi() as api:
        store_objects(api)
        api.on(f"POST {endpoints.EVENTS.collection('shop')}", Reply(status=201, body={}))
        async with running_component("updater", api, tmp_path, *flags) as process:
            await api.asked(f"GET {ROCKETS}/{NEIGHBOURS['query']}/scale")
            await wait_for_cycles(process, 3)
            await check_metrics(process)
            await stop(process)
            check_log(process)
            check_requests(api)


async def test_the_webhook_requests_and_logs_valid_text(tmp_path: Path) -> None:
    bundle = new_bundle()
    await Directory(tmp_path).save(bundle)
    async with FakeApi() as api:
        admission_process.prepare(api)
        store_objects(api)
        async with (
            admission_process.running(api, tmp_path, VERBOSE) as (process, port),
        ):
            await process.logged("webhook registered")
            async with Connection.to(port, bundle.authority.certificate) as connection:
                for made in pods():
                    answer = await connection.review(pod_request(made, namespace="shop"))
                    assert answer["allowed"]
                for made in vpas():
                    await connection.review(vpa_request(made))
            await check_metrics(process)
            await stop(process)
            check_log(process)
            check_requests(api, (WEBHOOK, WEBHOOKS, LEASE, LEASES))
