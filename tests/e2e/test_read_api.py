"""The read API on a real control plane: three accounts, and the pod proxy of the API server."""

import contextlib
from dataclasses import dataclass

import aiohttp
import msgspec

from common.errors import KubeError
from common.kube.endpoints import PODS
from common.read_model.admission import ADMISSIONS_PATH, REGISTRATION_PATH
from common.read_model.recommender import VPAS_PATH
from common.read_model.updater import PLAN_PATH
from e2e.accounts import three_accounts
from e2e.cluster import Case, Cluster
from e2e.installation import ADMISSION, COMPONENTS, OPS_PORTS, RECOMMENDER, SYSTEM, UPDATER
from e2e.relayed_components import address_of_api_server, create_pod_with, other_address, relay

PATHS = {RECOMMENDER: VPAS_PATH, UPDATER: PLAN_PATH, ADMISSION: ADMISSIONS_PATH}


@dataclass(frozen=True)
class Answer:
    status: int
    body: str

    @property
    def namespaces(self) -> set[str]:
        """Return the namespaces of the rows."""
        return {item["namespace"] for item in msgspec.json.decode(self.body)["items"]}


async def ask(cluster: Cluster, component: str, path: str, token: str = "") -> Answer:
    """Ask the component that leads, on loopback."""
    (pod,) = await cluster.component_pods(component)
    return await fetch(pod["status"]["podIP"], OPS_PORTS[component], path, token)


async def fetch(host: str, port: int, path: str, token: str = "") -> Answer:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{host}:{port}{path}", headers=headers) as response,
    ):
        return Answer(response.status, await response.text())


async def test_each_account_reads_the_namespaces_in_which_it_may_get_vpas(case: Case) -> None:
    cluster, mine, other = case.cluster, case.namespace, f"{case.namespace}-other"
    await cluster.kubectl("create", "namespace", other)
    neighbour = Case(cluster, other)
    try:
        async with three_accounts(case) as tokens:
            for each in (case, neighbour):
                await each.create_vpa("web")
                await each.deploy("web")
                await each.wait_until_ready("web")
            for component, path in PATHS.items():

                async def known(component: str = component, path: str = path) -> bool:
                    answer = await ask(cluster, component, path, tokens["all"])
                    assert answer.status == 200, answer.body
                    return {mine, other} <= answer.namespaces

                await cluster.wait_for(known, f"{component} knows both namespaces")
                one = await ask(cluster, component, path, tokens["one"])
                assert (one.status, one.namespaces) == (200, {mine})
                none = await ask(cluster, component, path, tokens["none"])
                assert (none.status, none.namespaces) == (200, set())
                for name, namespace, status in (
                    ("all", other, 200),
                    ("one", mine, 200),
                    ("one", other, 403),
                    ("none", mine, 403),
                    ("forged", mine, 401),
                ):
                    token = tokens.get(name, tokens["all"][:-4] + "AAAA")
                    answer = await ask(cluster, component, f"{path}?namespace={namespace}", token)
                    assert answer.status == status, (component, name, namespace, answer.body)
            await check_objects(cluster, tokens, mine, other)
            await check_secrecy(cluster, list(tokens.values()))
    finally:
        await cluster.kubectl("delete", "namespace", other, "--wait=false")


async def check_objects(cluster: Cluster, tokens: dict[str, str], mine: str, other: str) -> None:
    """Check answers with a single object."""
    for name, path, status in (
        ("one", f"{VPAS_PATH}/{mine}/web", 200),
        ("one", f"{VPAS_PATH}/{other}/web", 403),
        ("one", f"{VPAS_PATH}/{other}/none", 403),
        ("all", f"{VPAS_PATH}/{other}/web", 200),
        ("all", f"{VPAS_PATH}/{other}/none", 404),
    ):
        answer = await ask(cluster, RECOMMENDER, path, tokens[name])
        assert answer.status == status, (name, path, answer.body)
    for name, status in (("all", 200), ("one", 403), ("none", 403)):
        answer = await ask(cluster, ADMISSION, REGISTRATION_PATH, tokens[name])
        assert answer.status == status, (name, answer.body)
        assert "PRIVATE KEY" not in answer.body


async def check_secrecy(cluster: Cluster, tokens: list[str]) -> None:
    """Check that no token is in a log or in an answer."""
    for component, path in PATHS.items():
        log = await cluster.kubectl("logs", f"deployment/{component}", namespace=SYSTEM)
        answer = await ask(cluster, component, path)
        assert not [token for token in tokens if token in log or token in answer.body]


async def test_the_pod_proxy_of_an_api_server_needs_no_token_and_another_address_does(
    case: Case,
) -> None:
    """API servers don't forward to loopback, where the components listen here.

    So a relay takes the connections of the API server on another address, and keeps that address.
    """
    cluster = case.cluster
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(other_address())
        for component in COMPONENTS:
            (pod,) = await cluster.component_pods(component)
            port = OPS_PORTS[component]
            await stack.enter_async_context(
                relay(address, pod["status"]["podIP"], port, source=address)
            )
        await create_pod_with(cluster, case.namespace, "relay", address)

        async def proxied(component: str) -> str:
            port, path = OPS_PORTS[component], PATHS[component]
            proxy = f"{PODS.object('relay', case.namespace)}:{port}/proxy{path}"
            try:
                return (await cluster.client.request("GET", proxy, retry=False)).decode()
            except KubeError as error:
                return str(error.status)

        for component, path in PATHS.items():
            direct = await fetch(address, OPS_PORTS[component], path)
            assert direct.status == 401, component
            assert "kubectl port-forward" in direct.body
            assert await proxied(component) == "401", component
        await stack.enter_async_context(address_of_api_server(cluster, case.namespace, address))
        for component in COMPONENTS:

            async def answered(component: str = component) -> bool:
                return (await proxied(component)).startswith('{"metadata":')

            await cluster.wait_for(answered, f"{component} answers its API server")
