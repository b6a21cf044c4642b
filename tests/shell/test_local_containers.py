"""Containers that really run, on the sandbox, in real time."""

from pathlib import Path
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import PODS, SECRETS
from local_pods import PORT, World, container, got, is_ready, listens, post, until, web, world

SECRET = {"metadata": {"name": "key"}, "stringData": {"word": "old"}}


def with_secret() -> dict[str, Any]:
    pod = web(
        env=({"name": "WHO", "value": "world"},),
        args=["--from=$(WHO)", "$(MISSING)"],
        ports=[{"name": "http", "containerPort": PORT}],
        readinessProbe={"periodSeconds": 1, "httpGet": {"port": "http", "path": "/"}},
        volumeMounts=[{"name": "key", "mountPath": "/etc/key"}],
        resources={"requests": {"cpu": "100m"}},
    )
    pod["spec"]["volumes"] = [{"name": "key", "secret": {"secretName": "key"}}]
    return pod


async def is_silent(ip: str) -> bool:
    return not await listens(ip)


async def serves(ip: str, text: str) -> bool:
    return await got(ip, "/etc/key/word") == text


async def test_a_process_waits_for_its_secret_gets_ready_restarts_and_ends_with_its_pod(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as here:
        await here.create(with_secret())
        await here.client.create(SECRETS, SECRET, namespace="shop")
        pod = await here.pod_when(is_ready)
        ip = pod["status"]["podIP"]
        assert ip.startswith("127.")
        assert (await got(ip, "/etc/key/word")) == "old"

        log = "/containerLogs/shop/web/app"
        root = f"{tmp_path}/pods/{pod['metadata']['uid']}/containers/app/root"
        first = f"hello shop {root} --from=world $(MISSING) world\n"
        assert (await here.kubelet(log)).startswith(first)
        assert "container_cpu_usage_seconds_total" in await here.kubelet("/metrics/resource")

        path = PODS.object("web", "shop", "log")
        told = await here.client.request("GET", path, query={"tailLines": 1, "timestamps": "true"})
        assert told.count(b"\n") == 1
        assert told.startswith(b"20")

        await here.client.patch(
            SECRETS,
            "key",
            {"stringData": {"word": "new"}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
        await until(lambda: serves(ip, "new"))

        await post(ip, "/exit")
        pod = await here.pod_when(lambda one: is_ready(one) and container(one)["restartCount"])
        ended = container(pod)["lastState"]["terminated"]
        assert (ended["exitCode"], container(pod)["restartCount"]) == (3, 1)
        assert (await here.kubelet(f"{log}?previous=true")).startswith("hello shop")

        await here.client.delete(PODS, "web", namespace="shop")
        await until(lambda: is_silent(ip))


async def test_processes_end_with_the_cluster(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        assert await listens(ip)
    assert not await listens(ip)


async def test_a_process_ends_whose_pod_makes_room_for_a_critical_one(tmp_path: Path) -> None:
    critical = {
        "metadata": {"name": "critical"},
        "spec": {
            "nodeName": "node-0",
            "priorityClassName": "system-node-critical",
            "containers": [
                {"name": "app", "image": "db:1", "resources": {"requests": {"cpu": "2"}}}
            ],
        },
    }
    async with world(tmp_path) as here:
        await here.create(web(resources={"requests": {"cpu": "3"}}))
        ip = await here.ready_ip()
        await here.create(critical)
        await until(lambda: is_silent(ip))
        told = await here.pod_when(lambda one: "terminated" in container(one)["state"])
        assert (told["status"]["phase"], told["status"]["reason"]) == ("Failed", "Preempting")
        assert container(told)["state"]["terminated"]["exitCode"] == 143

        async def is_told() -> bool:
            why = "Preempted in order to admit critical pod"
            return ("Preempting", why) in await here.events()

        await until(is_told)


# Variables from other objects


def word(source: str) -> dict[str, Any]:
    return {"name": "WHO", "valueFrom": {source: {"name": "key", "key": "word"}}}


async def made(here: World, collection: str, body: dict[str, Any]) -> None:
    await here.client.request("POST", f"/api/v1/namespaces/shop/{collection}", body=body)


@pytest.mark.parametrize(
    ("collection", "source", "kind"),
    [("secrets", "secretKeyRef", "Secret"), ("configmaps", "configMapKeyRef", "ConfigMap")],
)
async def test_a_container_whose_variable_has_no_source_yet_waits_for_it(
    tmp_path: Path, collection: str, source: str, kind: str
) -> None:
    part = "stringData" if kind == "Secret" else "data"
    async with world(tmp_path) as here:
        await here.create(web(env=(word(source),)))
        told = await here.pod_when(lambda one: "waiting" in container(one).get("state", {}))
        told = await here.pod_when(
            lambda one: container(one)["state"]["waiting"]["reason"] != "ContainerCreating"
        )
        assert container(told)["state"] == {
            "waiting": {
                "reason": "CreateContainerConfigError",
                "message": f'{kind.lower()} "key" not found',
            }
        }
        assert told["status"]["phase"] == "Pending"
        await made(here, collection, {"metadata": {"name": "key"}, part: {"other": "x"}})
        missing = f"couldn't find key word in {kind} shop/key"
        await here.pod_when(
            lambda one: container(one)["state"]["waiting"].get("message") == missing
        )
        await here.client.request(
            "PATCH",
            f"/api/v1/namespaces/shop/{collection}/key",
            body={part: {"word": "somebody"}},
            content_type=PatchType.MERGE.value,
        )
        told = await here.pod_when(is_ready)
        assert container(told)["restartCount"] == 0
        said = await here.kubelet("/containerLogs/shop/web/app")
        assert said.splitlines()[0].endswith(" somebody")
        failed = [text for reason, text in await here.events() if reason == "Failed"]
        assert failed == [f'Error: {kind.lower()} "key" not found', f"Error: {missing}"]


async def test_whole_objects_become_variables_and_what_is_optional_may_be_missing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as here:
        await made(here, "configmaps", {"metadata": {"name": "who"}, "data": {"HO": "everybody"}})
        pod = web(
            envFrom=[
                {"prefix": "W", "configMapRef": {"name": "who"}},
                {"secretRef": {"name": "lost", "optional": True}},
            ]
        )
        await here.create(pod)
        await here.ready_ip()
        said = await here.kubelet("/containerLogs/shop/web/app")
        assert said.splitlines()[0].endswith(" everybody")
