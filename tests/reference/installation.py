"""The installation of the reference with its own manifests."""

from reference.cluster import Cluster
from reference.programs import GENCERTS

NAMESPACE = "kube-system"
_COMPONENTS = ("recommender", "updater", "admission-controller")
ROLLOUTS = "\n".join(
    f"kubectl -n {NAMESPACE} rollout status deployment/vpa-{component} --timeout=90s"
    for component in _COMPONENTS
)
"""Commands that wait until all components run as their Deployments say."""


async def install(cluster: Cluster) -> None:
    """Do what the reference's hack/vpa-up.sh does."""
    await cluster.operator.shell(f"""
        kubectl apply -f vpa-v1-crd-gen.yaml -f vpa-rbac.yaml
        kubectl apply -f updater-deployment.yaml -f recommender-deployment.yaml
        bash {GENCERTS}
        kubectl apply -f admission-controller-service.yaml -f admission-controller-deployment.yaml
        {ROLLOUTS}
    """)
