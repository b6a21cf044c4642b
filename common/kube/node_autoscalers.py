"""The autoscalers of nodes that are visible in a cluster: Karpenter and the cluster autoscaler."""

from typing import Any

import msgspec

from common.api.base import Wire
from common.api.decoding import decode
from common.api.meta import NamedObject
from common.errors import DecodeError, ForbiddenError, NotFoundError
from common.kube.client import KubeClient
from common.kube.discovery import served_versions
from common.kube.endpoints import Endpoint, version_path

KARPENTER = "karpenter.sh"
NODE_POOLS: Endpoint[Any] = Endpoint(
    KARPENTER, "v1", "nodepools", "NodePool", dict[str, Any], namespaced=False
)
CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", NamedObject)
STATUS_NAMESPACE, STATUS_NAME = "kube-system", "cluster-autoscaler-status"


class _NodePools(Wire, frozen=True, kw_only=True):
    items: tuple[msgspec.Raw, ...] | None = None


_pools = msgspec.json.Decoder(_NodePools)


async def karpenter_is_visible(client: KubeClient) -> bool:
    """Return whether Karpenter has a NodePool, or may have one that can't be listed.

    All versions of a group serve the same objects. A Karpenter without NodePools is older than
    0.32 and has Provisioners.

    Raises:
        KubeError: the API server refused or failed.
        DecodeError: an answer is malformed.
    """
    versions = await served_versions(client, KARPENTER)
    for version in versions:
        path = f"{version_path(KARPENTER, version)}/{NODE_POOLS.resource}"
        try:
            body = await client.request("GET", path, query={"limit": 1})
        except NotFoundError:
            continue
        except ForbiddenError:
            return True
        try:
            return bool(decode(_pools, body).items)
        except msgspec.DecodeError as error:
            raise DecodeError(f"NodePools: {error}") from error
    return bool(versions)


async def cluster_autoscaler_is_visible(client: KubeClient) -> bool:
    """Return whether a cluster autoscaler has written its status to the namespace kube-system.

    Raises:
        KubeError: the API server refused or failed.
        DecodeError: the answer is malformed.
    """
    try:
        await client.get(CONFIG_MAPS, STATUS_NAME, namespace=STATUS_NAMESPACE)
    except NotFoundError:
        return False
    return True
