"""Creation of objects from manifests; discovery returns the endpoint of each kind."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from common.errors import ConfigError, NotFoundError, ServerError
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint

_CRD = "CustomResourceDefinition"
_DISCOVERY_TIMEOUT = 10.0  # seconds until a new kind is served


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of one manifest.

    Raises:
        ConfigError: the file isn't YAML.
    """
    try:
        yield from (item for item in yaml.safe_load_all(path.read_text("utf-8")) if item)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {error}") from error


async def apply(client: KubeClient, path: Path) -> list[str]:
    """Create every object of a manifest; return ``kind/name`` of each.

    Wait until a new kind is served, so that the next manifest can use it.
    """
    created = []
    for item in documents(path):
        endpoint = await _endpoint(client, item["apiVersion"], item["kind"])
        metadata = item["metadata"]
        await client.create(endpoint, item, namespace=metadata.get("namespace", ""))
        created.append(f"{item['kind'].lower()}/{metadata['name']}")
        if item["kind"] == _CRD:
            spec = item["spec"]
            served = next(version["name"] for version in spec["versions"] if version["served"])
            await _endpoint(client, f"{spec['group']}/{served}", spec["names"]["kind"])
    return created


async def _endpoint(client: KubeClient, api_version: str, kind: str) -> Endpoint[dict[str, Any]]:
    """Return the endpoint of a kind; wait until discovery lists it."""
    group, _, version = api_version.rpartition("/")
    path = f"/apis/{api_version}" if group else f"/api/{version}"
    async with asyncio.timeout(_DISCOVERY_TIMEOUT):
        while True:
            try:
                found = msgspec.json.decode(await client.request("GET", path))
            except (NotFoundError, ServerError):
                found = {}
            for resource in found.get("resources", ()):
                if resource["kind"] == kind and "/" not in resource["name"]:
                    return Endpoint(
                        group=group,
                        version=version,
                        resource=resource["name"],
                        kind=kind,
                        type=dict[str, Any],
                        namespaced=resource["namespaced"],
                    )
            await asyncio.sleep(0.1)
