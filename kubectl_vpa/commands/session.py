"""One run of a command: its connection, its scope and where it prints."""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from common.kube import config
from common.kube.client import KubeClient
from common.runtime.clock import SystemClock
from common.version import user_agent
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.output.screen import Screen

PROGRAM = "kubectl-vpa"

KUBECTLS_CONFIG = "~/.kube/config"
_QPS, _BURST = 50.0, 300.0  # as kubectl
_NAMESPACE_OF_POD = config.SERVICE_ACCOUNT / "namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A connected command."""

    client: KubeClient
    reader: Reader
    screen: Screen
    now: datetime
    namespace: str  # of the arguments or the context, also with all namespaces


@asynccontextmanager
async def connected(
    arguments: argparse.Namespace,
    screen: Screen,
    *,
    all_namespaces: bool = False,
    context: str | None = None,
) -> AsyncIterator[Session]:
    """Connect with the person's own credentials; ``context`` is by default that of the arguments.

    Raises:
        ConfigError: there is no usable kubeconfig.
    """
    chosen = arguments.context if context is None else context
    connection = await config.load(arguments.kubeconfig, chosen, default=KUBECTLS_CONFIG)
    everywhere = all_namespaces or getattr(arguments, "all_namespaces", False)
    asked = getattr(arguments, "namespace", "")
    namespace = asked or connection.namespace or _own_namespace() or "default"
    async with KubeClient(
        connection, user_agent=user_agent(PROGRAM), qps=_QPS, burst=_BURST
    ) as client:
        scope = "" if everywhere and not asked else namespace
        yield Session(
            client=client,
            reader=Reader(client=client, namespace=scope, progress=screen.progress),
            screen=screen,
            now=SystemClock().now(),
            namespace=namespace,
        )


def first_error(error: BaseException) -> BaseException:
    """Return the first error of a group, or the error itself."""
    return first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _own_namespace() -> str:
    """Return the namespace of the pod that the command runs in; empty outside of a pod."""
    file: Path = _NAMESPACE_OF_POD
    return file.read_text(encoding="utf-8").strip() if config.runs_in_pod(os.environ) else ""
