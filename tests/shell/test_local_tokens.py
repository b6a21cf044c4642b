"""The service account token that a container finds on its disk.

Where it is a real process, hours pass by jumps of the cluster's clock, which is what tokens are
issued and renewed by.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from common.kube.client import KubeClient
from common.kube.endpoints import PODS
from local_pods import World, container, got, listens, until, web, world
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster
from sandbox.kubelet.local.site import Place
from sandbox.kubelet.local.sources import Sources
from sandbox.kubelet.local.volumes import Volumes
from sandbox.kubelet.wire import RunnablePod
from virtual_cluster import in_cluster

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
ACCOUNT = "/api/v1/namespaces/shop/serviceaccounts/default"
OLD = timedelta(minutes=50)  # more than 80 % of an hour
UNAUTHORIZED, FORBIDDEN = 401, 403  # nobody, and somebody without rights


async def standing(here: World, token: str) -> int:
    """What the API server answers to a request that only few may make."""
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{here.cluster.url}/api/v1/namespaces/shop/secrets"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(url, ssl=here.cluster.trusted) as answer,
    ):
        return answer.status


def another_than(ip: str, token: str) -> Callable[[], Awaitable[bool]]:
    async def is_another() -> bool:
        return await got(ip, TOKEN) != token

    return is_another


async def test_a_token_is_renewed_before_its_time_is_over_and_ends_with_its_pod(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        first = await got(ip, TOKEN)
        assert await standing(here, first) == FORBIDDEN

        here.cluster.clock.jump(OLD)
        await until(another_than(ip, first))
        second = await got(ip, TOKEN)
        assert [await standing(here, one) for one in (first, second)] == [FORBIDDEN] * 2

        await here.client.delete(PODS, "web", namespace="shop")

        async def is_gone() -> bool:
            return not (await here.client.list(PODS, namespace="shop")).items

        await until(is_gone)
        assert [await standing(here, one) for one in (first, second)] == [UNAUTHORIZED] * 2
        assert not await listens(ip)


async def test_a_token_of_an_account_that_was_made_anew_is_replaced_when_it_is_old(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as here:
        await here.create(web())
        ip = await here.ready_ip()
        first = await got(ip, TOKEN)
        await here.client.request("DELETE", ACCOUNT)  # its controller makes another one
        assert await standing(here, first) == UNAUTHORIZED
        here.cluster.clock.jump(OLD)
        await until(another_than(ip, first))
        assert await standing(here, await got(ip, TOKEN)) == FORBIDDEN


async def test_a_token_that_can_not_be_renewed_stays_and_so_do_the_other_volumes(
    tmp_path: Path,
) -> None:
    pod = web(volumeMounts=[{"name": "word", "mountPath": "/etc/word"}])
    pod["spec"]["volumes"] = [{"name": "word", "configMap": {"name": "word"}}]
    maps = "/api/v1/namespaces/shop/configmaps"
    async with world(tmp_path) as here:
        await here.client.request(
            "POST", maps, body={"metadata": {"name": "word"}, "data": {"it": "old"}}
        )
        await here.create(pod)
        ip = await here.ready_ip()
        first = await got(ip, TOKEN)
        refuse = ApiFault(
            calls=Calls(resource="serviceaccounts/token"), effect=Effect(refuse=Refusal.UNAVAILABLE)
        )
        heal = here.cluster.api.faults.add(refuse)
        here.cluster.clock.jump(OLD)
        await here.client.request(
            "PATCH",
            f"{maps}/word",
            body={"data": {"it": "new"}},
            content_type="application/merge-patch+json",
        )

        async def is_new() -> bool:
            return await got(ip, "/etc/word/it") == "new"

        async def was_refused() -> bool:
            return any(rule["hits"] for rule in here.cluster.api.faults.as_json())

        await until(is_new)
        await until(was_refused)
        assert await got(ip, TOKEN) == first
        told: Any = await here.pod_when(lambda _: True)
        assert container(told)["restartCount"] == 0
        assert "FailedMount" not in [reason for reason, _ in await here.events()]
        heal()
        await until(another_than(ip, first))


@pytest.mark.parametrize(
    ("life", "age"),
    [
        pytest.param(600, 480, id="ten minutes, after eight"),
        pytest.param(3600, 2880, id="an hour, after 48 minutes"),
        pytest.param(7 * 86_400, 86_400, id="a week, after a day"),
    ],
)
def test_a_token_is_renewed_when_it_is_old(tmp_path: Path, life: int, age: int) -> None:
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": life}}
    raw = web()
    raw["spec"]["volumes"] = [{"name": "token", "projected": {"sources": [source]}}]

    async def test(cluster: Cluster, client: KubeClient) -> None:
        made = await client.create(PODS.as_dicts(), raw, namespace="shop")
        pod = msgspec.convert(made | {"spec": made["spec"] | raw["spec"]}, RunnablePod)
        volumes = Volumes(
            pod=pod,
            place=Place(kubeconfig=tmp_path, root=tmp_path, ip="", host_ip=""),
            folder=tmp_path,
            client=client,
            clock=cluster.clock,
            sources=Sources(client=client, namespace="shop"),
        )
        tokens = []
        for seconds in (0, age - 5, 10):
            cluster.clock.jump(timedelta(seconds=seconds))
            await volumes.write()
            tokens.append((tmp_path / "token" / "token").read_text())
        assert [one == tokens[0] for one in tokens] == [True, True, False]

    in_cluster(test, scenario="namespaces: [shop]")
