"""Service accounts of namespaces and pods: the admission plugin, and the controller behind it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.errors import ForbiddenError
from common.kube.client import KubeClient
from common.kube.endpoints import NAMESPACES, PODS
from fake_api import until
from sandbox.cluster import Cluster, running_cluster
from sandbox.controllers.service_accounts import CONFIG_MAPS, SERVICE_ACCOUNTS
from sandbox_client import Api, api_server, pod

GOLDEN = "/api/v1/namespaces/golden"
FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server(gives_accounts=True) as found:
        await found.make(f"{GOLDEN}/serviceaccounts", {"metadata": {"name": "default"}})
        yield found


async def made(api: Api, body: dict[str, Any]) -> Any:
    return (await api.make(f"{GOLDEN}/pods", body))["spec"]


async def test_a_pod_gets_the_token_of_its_account_in_every_container(api: Api) -> None:
    first = {"name": "first", "image": "i"}
    spec = await made(api, pod(initContainers=[first]))
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": FOLDER}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["volumeMounts"] == [mount]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"


@pytest.mark.parametrize("name", [{"name": "web"}, {"generateName": "web-"}], ids=str)
async def test_a_pod_without_its_account_is_refused(api: Api, name: dict[str, str]) -> None:
    body = {**pod(serviceAccountName="nobody"), "metadata": name}
    answer = await api("POST", f"{GOLDEN}/pods", body)
    assert answer.status == 403
    shown = next(iter(name.values()))
    assert answer.json["message"] == (
        f'pods "{shown}" is forbidden: error looking up service account golden/nobody: '
        'serviceaccount "nobody" not found'
    )


NO_TOKEN = {"automountServiceAccountToken": False}
TOKEN = {"automountServiceAccountToken": True}


@pytest.mark.parametrize(
    ("of_account", "of_pod", "volumes"),
    [({}, {}, 1), (NO_TOKEN, {}, 0), (NO_TOKEN, TOKEN, 1), (TOKEN, NO_TOKEN, 0)],
    ids=["nobody says", "the account says no", "the pod says yes", "the pod says no"],
)
async def test_the_pod_decides_about_the_token_before_its_account(
    api: Api, of_account: dict[str, Any], of_pod: dict[str, Any], volumes: int
) -> None:
    account = {"metadata": {"name": "robot"}, **of_account}
    await api.make(f"{GOLDEN}/serviceaccounts", account)
    body = pod(serviceAccountName="robot")
    body["spec"] |= of_pod
    assert len((await made(api, body)).get("volumes", ())) == volumes


async def test_a_container_with_a_mount_of_its_own_keeps_it(api: Api) -> None:
    body = pod(volumes=[{"name": "mine", "emptyDir": {}}])
    mount = {"name": "mine", "mountPath": FOLDER}
    body["spec"]["containers"][0]["volumeMounts"] = [mount]
    spec = await made(api, body)
    assert [one["name"] for one in spec["volumes"]] == ["mine"]
    assert [one["name"] for one in spec["containers"][0]["volumeMounts"]] == ["mine"]


async def test_pull_secrets_come_from_the_account(api: Api) -> None:
    secrets = [{"name": "registry"}]
    account = {"metadata": {"name": "robot"}, "imagePullSecrets": secrets}
    await api.make(f"{GOLDEN}/serviceaccounts", account)
    spec = await made(api, pod(serviceAccountName="robot"))
    assert spec["imagePullSecrets"] == secrets


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as found:
        yield found


async def present(client: KubeClient, namespace: str) -> tuple[Any, Any]:
    account = await client.get(SERVICE_ACCOUNTS, "default", namespace=namespace)
    authority = await client.get(CONFIG_MAPS, "kube-root-ca.crt", namespace=namespace)
    return account, authority


async def test_namespaces_get_an_account_and_the_authority(cluster: Cluster) -> None:
    async with cluster.client("test") as client:
        account, authority = await present(client, "default")
        assert authority["data"] == {"ca.crt": cluster.serving.authority}

        def makes() -> int:
            return len(cluster.audit(verb="create", resource="configmaps", namespace="late"))

        await client.create(NAMESPACES.as_dicts(), {"metadata": {"name": "late"}})
        await until(lambda: makes() == 1)
        account, _ = await present(client, "late")
        await client.delete(SERVICE_ACCOUNTS, "default", namespace="late")
        await until(lambda: makes() > 1)  # the account is made right before
        again, _ = await present(client, "late")
        assert again["metadata"]["uid"] != account["metadata"]["uid"]


async def test_pods_have_to_wait_for_the_account_of_their_namespace(cluster: Cluster) -> None:
    async with cluster.client("test") as client:
        with pytest.raises(ForbiddenError, match="error looking up service account"):
            await client.create(
                PODS.as_dicts(), pod(serviceAccountName="later"), namespace="default"
            )
        later = {"metadata": {"name": "later"}}
        await client.create(SERVICE_ACCOUNTS, later, namespace="default")
        await client.create(PODS.as_dicts(), pod(serviceAccountName="later"), namespace="default")
