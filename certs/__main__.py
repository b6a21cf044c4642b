"""Make sure that the webhook has certificates: ``python -P -m certs``."""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from certs import authority, certificate_stores
from certs.settings import CertsSettings
from certs.trust import CaBundleStore, NoCaBundle, WebhookCaBundle
from common.errors import ConfigError, KubeError
from common.flags import read_flags
from common.kube import config
from common.kube.client import KubeClient
from common.runtime import logs, service
from common.runtime.clock import Clock, SystemClock
from common.version import user_agent

PROGRAM = "vpa-certs"
_KUBECTLS_CONFIG = "~/.kube/config"


async def ensure(settings: CertsSettings, clock: Clock) -> None:
    """Create missing certificates, and renew those that are due.

    Raises:
        ConfigError: the hosts, the directory or the API server can't be used.
    """
    trust: CaBundleStore = NoCaBundle()
    async with contextlib.AsyncExitStack() as stack:
        stores: list[certificate_stores.Store] = []
        if settings.secret:
            connection = await config.load(
                settings.kubeconfig, settings.context, default=_KUBECTLS_CONFIG
            )
            client = await stack.enter_async_context(
                KubeClient(
                    connection,
                    user_agent=user_agent(PROGRAM),
                    qps=settings.kube_api_qps,
                    burst=settings.kube_api_burst,
                )
            )
            stores.append(
                certificate_stores.Secret(client, settings.secret_namespace, settings.secret)
            )
            if settings.webhook_config:
                trust = WebhookCaBundle(client, settings.webhook_config)
        if settings.output_dir:
            stores.append(certificate_stores.Directory(Path(settings.output_dir)))
        try:
            _, decision = await certificate_stores.ensure(
                stores, trust, settings.policy, make_key=authority.rsa_key, now=clock.now()
            )
        except KubeError as error:
            raise ConfigError(f"can't keep the certificates: {error}") from error
        certificate_stores.log_decision(decision)


async def _main(argv: Sequence[str]) -> None:
    settings = read_flags(CertsSettings, argv, program=PROGRAM, environ=os.environ)
    logs.configure(settings.verbosity, settings.logging_format)
    await ensure(settings, SystemClock())


def main() -> int:
    """Run the program and return its exit code."""
    return service.run(PROGRAM, lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
