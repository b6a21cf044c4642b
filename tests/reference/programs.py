"""The reference's programs, manifests and chart, which `make reference` builds, and ours."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

_MODULE = Path(__file__).with_name("go.mod")
_REQUIRED = re.compile(r"^\s*k8s\.io/autoscaler/vertical-pod-autoscaler v(\S+)", re.MULTILINE)
(VERSION,) = _REQUIRED.findall(_MODULE.read_text("utf-8"))

REFERENCE = ROOT / ".controlplane" / "reference" / f"v{VERSION}"
MANIFESTS = REFERENCE / "deploy"
CHART = REFERENCE / "charts" / "vertical-pod-autoscaler"
GENCERTS = REFERENCE / "gencerts.sh"

THEIR_REGISTRY = "registry.k8s.io/autoscaling"
OUR_REGISTRY = "registry.example.com/vpa"  # as in deploy/components/kustomization.yaml
CERTGEN = "registry.k8s.io/ingress-nginx/kube-webhook-certgen"

# Pods share the network of this machine, so each gets a port of its own for the webhook, and its
# own address for the rest. Intervals are seconds. Windows of memory end often, and history stays.
_SPEED = {
    "recommender": (
        "--recommender-interval=1s",
        "--memory-aggregation-interval=5s",
        "--memory-aggregation-interval-count=1000",
    ),
    "updater": (
        "--updater-interval=1s",
        "--in-recommendation-bounds-eviction-lifetime-threshold=5s",
    ),
    "admission": (),
}
_OPS_PORTS = {"recommender": 8942, "updater": 8943, "admission": 8944}
_CERTIFICATES = (
    "--client-ca-file={root}/etc/tls-certs/caCert.pem",
    "--tls-cert-file={root}/etc/tls-certs/serverCert.pem",
    "--tls-private-key={root}/etc/tls-certs/serverKey.pem",
)
_FIRST_PORT = 20000
_ON_OWN_PORT = (
    *("sh", "-c", f'ip=$1; shift; exec "$@" --port=$(({_FIRST_PORT} + ${{{{ip##*.}}}}))'),
    *("sh", "{ip}"),
)


def webhook_port(address: str) -> int:
    """Return the port of the webhook of a pod with this address."""
    return _FIRST_PORT + int(address.rpartition(".")[2])


def problem() -> str:
    """Return the reason why the tests can't run; empty if they can."""
    if not REFERENCE.is_dir():
        return "the reference is missing: run `make reference`"
    missing = [tool for tool in ("bash", "jq", "kubectl", "openssl") if shutil.which(tool) is None]
    return f"the reference's tests need {', '.join(missing)}" if missing else ""


def images() -> Mapping[str, tuple[str, ...]]:
    """Return the command of each image."""
    found: dict[str, tuple[str, ...]] = {
        CERTGEN: ("{python}", "-P", str(Path(__file__).with_name("certgen.py")), "{kubeconfig}")
    }
    for component, port in _OPS_PORTS.items():
        name = "admission-controller" if component == "admission" else component
        for registry, words in (
            (THEIR_REGISTRY, (str(REFERENCE / name),)),
            (OUR_REGISTRY, ("{python}", "-P", "-m", component)),
        ):
            before = _ON_OWN_PORT if component == "admission" else ()
            found[f"{registry}/vpa-{name}"] = (
                *before,
                *words,
                "--kubeconfig={kubeconfig}",
                f"--address={{ip}}:{port}",
                *(_CERTIFICATES if component == "admission" else ()),
                *_SPEED[component],
            )
    return found
