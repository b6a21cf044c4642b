"""What the reference's chart runs as kube-webhook-certgen: ``certgen.py KUBECONFIG COMMAND FLAG…``.

``create`` stores certificates in a Secret if there is none. ``patch`` writes their authority into a
webhook configuration.
"""

import asyncio
import sys
from base64 import b64encode
from datetime import timedelta

from certs import authority
from common.errors import NotFoundError
from common.kube import config
from common.kube.client import KubeClient
from common.kube.endpoints import MUTATING_WEBHOOKS, SECRETS
from common.runtime.clock import SystemClock

_LIFETIME = timedelta(days=36500)


async def create(client: KubeClient, flags: dict[str, str]) -> None:
    """Create the Secret with the keys ``ca``, ``cert`` and ``key``, unless it exists."""
    name, namespace = flags["--secret-name"], flags["--namespace"]
    try:
        await client.get(SECRETS, name, namespace=namespace)
    except NotFoundError:
        made = authority.create(
            flags["--host"].split(","),
            make_key=authority.rsa_key,
            now=SystemClock().now(),
            lifetime=_LIFETIME,
        )
        files = {
            "ca": made.authority.certificate,
            "cert": made.server.certificate,
            "key": made.server.key,
        }
        data = {key: b64encode(content).decode() for key, content in files.items()}
        secret = {"metadata": {"name": name}, "data": data}
        await client.create(SECRETS, secret, namespace=namespace)


async def patch(client: KubeClient, flags: dict[str, str]) -> None:
    """Write the authority of the Secret into all webhooks of the configuration."""
    secret = await client.get(SECRETS, flags["--secret-name"], namespace=flags["--namespace"])
    found = await client.get(MUTATING_WEBHOOKS, flags["--webhook-name"])
    for webhook in found["webhooks"]:
        webhook["clientConfig"]["caBundle"] = secret["data"]["ca"]
    await client.replace(MUTATING_WEBHOOKS, flags["--webhook-name"], found)


async def main(kubeconfig: str, command: str, *words: str) -> None:
    """Run one of the commands."""
    flags = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    connection = await config.load(kubeconfig)
    async with KubeClient(connection, user_agent="certgen", qps=0, burst=0) as client:
        await {"create": create, "patch": patch}[command](client, flags)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
