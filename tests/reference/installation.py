"""How the reference is installed before it is replaced."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reference.cluster import Cluster
from reference.programs import GENCERTS

NAMESPACE = "kube-system"


@dataclass(frozen=True)
class Installation:
    """A way to install the reference, and the namespace of its components."""

    namespace: str
    install: Callable[[Cluster], Awaitable[None]]


_COMPONENTS = ("recommender", "updater", "admission-controller")
ROLLOUTS = "\n".join(
    f"kubectl -n {NAMESPACE} rollout status deployment/vpa-{component} --timeout=90s"
    for component in _COMPONENTS
)
"""Commands that wait until all components run as their Deployments say."""


async def _apply(cluster: Cluster) -> None:
    """Do what the reference's hack/vpa-up.sh does."""
    await cluster.operator.shell(f"""
        kubectl apply -f vpa-v1-crd-gen.yaml -f vpa-rbac.yaml
        kubectl apply -f updater-deployment.yaml -f recommender-deployment.yaml
        bash {GENCERTS}
        kubectl apply -f admission-controller-service.yaml -f admission-controller-deployment.yaml
        {ROLLOUTS}
    """)


MANIFESTS = Installation(NAMESPACE, _apply)
"""The reference's own manifests."""
