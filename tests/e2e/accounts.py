"""Accounts of persons with different rights."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import yaml

from e2e.cluster import Case

VPA_RESOURCE = "verticalpodautoscalers.autoscaling.k8s.io"


async def account(case: Case, name: str) -> str:
    """Create a service account in the namespace of the case, and return its token."""
    kubectl = case.cluster.kubectl
    await kubectl("create", "serviceaccount", name, namespace=case.namespace)
    return (await kubectl("create", "token", name, namespace=case.namespace)).strip()


@contextlib.asynccontextmanager
async def three_accounts(
    case: Case, *, verb: str = "get", resources: tuple[str, ...] = (VPA_RESOURCE,)
) -> AsyncIterator[dict[str, str]]:
    """Yield tokens of accounts with rights in all namespaces, in that of the case, and in none."""
    kubectl, namespace = case.cluster.kubectl, case.namespace
    role = f"{namespace}-readers"
    tokens = {name: await account(case, name) for name in ("all", "one", "none")}
    allowed = (f"--verb={verb}", f"--resource={','.join(resources)}")
    try:
        await kubectl("create", "clusterrole", role, *allowed)
        all_of_them = f"--serviceaccount={namespace}:all"
        await kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", all_of_them)
        mine = f"--serviceaccount={namespace}:one"
        await kubectl(
            "create", "rolebinding", role, f"--clusterrole={role}", mine, namespace=namespace
        )
        yield tokens
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            await kubectl("delete", kind, role, "--ignore-not-found")


def kubeconfig_of(case: Case, name: str, token: str) -> Path:
    """Write a kubeconfig with this token."""
    kubectl = case.cluster.kubectl
    content = yaml.safe_load(kubectl.kubeconfig.read_text())
    content["users"] = [{**content["users"][0], "user": {"token": token}}]
    file = kubectl.kubeconfig.with_name(f"{case.namespace}-{name}")
    file.write_text(yaml.safe_dump(content))
    return file
