"""Checks of the API, the components, the webhook and the certificates."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from common.api.autoscaling import UpdateMode
from common.features import FeatureGates
from common.target.controlling import has_startup_boost, mode_of
from kubectl_vpa.judge.findings import (
    ADMISSION,
    COMPONENTS,
    RECOMMENDER,
    UPDATER,
    ComponentPod,
    Facts,
    Webhook,
    error,
    ok,
    skipped,
    warning,
)
from kubectl_vpa.results.doctor import Finding

RESOURCES = ("verticalpodautoscalers", "verticalpodautoscalercheckpoints")
STALE_METRICS = timedelta(minutes=5)
STALE_LEASE = timedelta(minutes=2)
SOON = timedelta(days=14)
"""A certificate that ends within this time is a warning."""

_OLDEST_MINOR = 33
_MANIFESTS = "apply the manifests of the installation"
_LEASES = {
    RECOMMENDER: ("vpa-recommender-lease", "vpa-recommender"),
    UPDATER: ("vpa-updater", "vpa-updater-lease"),
    ADMISSION: ("vpa-admission-controller",),
}
_IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)


def api(facts: Facts) -> Iterator[Finding]:
    """Check that the API server serves the custom resources."""
    if facts.served is None:
        yield skipped("api", "the API groups could not be read")
        return
    missing = [name for name in RESOURCES if name not in facts.served]
    for name in missing:
        yield error(
            "api",
            name,
            "the API server doesn't serve autoscaling.k8s.io/v1 of it",
            "apply the custom resource definitions: kubectl apply -k deploy/crd",
        )
    if not missing and "verticalpodautoscalers/status" not in facts.served:
        yield error(
            "api",
            RESOURCES[0],
            "the definition has no status subresource, which the recommender writes",
            "apply the current custom resource definitions",
        )
    elif not missing:
        yield ok("api", "autoscaling.k8s.io/v1 is served")


def metrics(facts: Facts) -> Iterator[Finding]:
    """Check that the metrics API answers with recent usage."""
    if facts.metrics_error:
        yield error(
            "metrics",
            "metrics.k8s.io",
            facts.metrics_error,
            "install or repair metrics-server; `kubectl top pods` must work",
        )
        return
    if facts.metrics is None:
        yield skipped("metrics", "you may not read the usage of pods")
        return
    if not facts.metrics:
        yield warning(
            "metrics",
            "metrics.k8s.io",
            "no pod has usage",
            "see the log of metrics-server; a new pod has usage after a minute",
        )
        return
    age = facts.now - max(facts.metrics)
    if age > STALE_METRICS:
        yield error(
            "metrics",
            "metrics.k8s.io",
            f"the newest usage is {age.total_seconds() / 60:.0f} minutes old",
            "see the log of metrics-server, and the clocks of the nodes",
        )
    else:
        yield ok("metrics", f"{len(facts.metrics)} pods have usage")


def components(facts: Facts) -> Iterator[Finding]:
    """Check that each component runs, in one version."""
    if facts.components is None:
        yield skipped("components", "you may not list pods in all namespaces")
        return
    found: list[str] = []
    for name in COMPONENTS:
        pods = [pod for pod in facts.components if pod.component == name]
        if not pods:
            yield error(
                "components", name, f"no pod has the label app={name}", f"install it: {_MANIFESTS}"
            )
        elif not any(pod.ready for pod in pods):
            yield error(
                "components",
                name,
                "its pod is not ready"
                if len(pods) == 1
                else f"none of its {len(pods)} pods is ready",
                f"kubectl -n {pods[0].namespace} describe pods -l app={name}",
            )
        else:
            found.append(name)
        yield from _images(name, pods)
        namespaces = {pod.namespace for pod in pods}
        if len(namespaces) > 1:
            yield error(
                "components",
                name,
                f"it runs in several namespaces: {', '.join(sorted(namespaces))}",
                "remove one of the two installations",
            )
    yield from _versions(facts.components)
    if len(found) == len(COMPONENTS):
        yield ok("components", f"{', '.join(found)} are ready")


def _images(name: str, pods: Sequence[ComponentPod]) -> Iterator[Finding]:
    images = sorted({pod.image for pod in pods})
    if len(images) > 1:
        yield warning(
            "components",
            name,
            f"its pods have different images: {', '.join(images)}",
            "wait for the end of the rollout, or see why it is stuck",
        )


def _versions(pods: Sequence[ComponentPod]) -> Iterator[Finding]:
    tags = {pod.component: pod.image.rpartition("/")[2].partition(":")[2] for pod in pods}
    if len(set(tags.values())) > 1:
        shown = ", ".join(f"{name} {tag or 'untagged'}" for name, tag in sorted(tags.items()))
        yield warning(
            "components", "", f"they have different versions: {shown}", "upgrade all of them"
        )


def leases(facts: Facts) -> Iterator[Finding]:
    """Check that a replica of each component leads or shows that it is alive."""
    if facts.leases is None or not facts.components:
        yield skipped("leases", "no component was seen, or you may not read Leases")
        return
    good: list[str] = []
    installed: dict[tuple[str, str], list[ComponentPod]] = {}
    for pod in facts.components:
        installed.setdefault((pod.component, pod.namespace), []).append(pod)
    for name, namespace in sorted(installed, key=lambda each: COMPONENTS.index(each[0])):
        pods = installed[name, namespace]
        if name != ADMISSION and not _elects(pods):
            continue
        names = tuple(
            filter(None, (*(pod.flags.get("leader-elect-resource-name") for pod in pods),))
        )
        keys = [(namespace, each) for each in names or _LEASES[name]]
        lease = next((facts.leases[key] for key in keys if key in facts.leases), None)
        renewed = None if lease is None else lease.spec.renew_time
        if lease is None or renewed is None:
            yield error(
                "leases",
                name,
                f"namespace {namespace} has no Lease {' or '.join(each for _, each in keys)}",
                f"kubectl -n {namespace} logs -l app={name}",
            )
        elif facts.now - renewed > STALE_LEASE:
            age = (facts.now - renewed).total_seconds()
            yield error(
                "leases",
                name,
                f"its Lease was renewed {age:.0f} seconds ago, so no replica is at work",
                f"kubectl -n {namespace} logs -l app={name}",
            )
        else:
            holder = lease.spec.holder_identity or "unknown"
            good.append(f"{name}: {holder}")
    if good:
        yield ok("leases", "; ".join(good))


def _elects(pods: Sequence[ComponentPod]) -> bool:
    return any(pod.flags.get("leader-elect") in ("true", "") for pod in pods)


def permissions(facts: Facts) -> Iterator[Finding]:
    """Check that the account of each component has the permissions that it needs."""
    if facts.denied is None:
        yield skipped("rbac", "no component was seen, or you may not review its access")
        return
    for account, missing in sorted(facts.denied.items()):
        if missing:
            yield error("rbac", account, f"it may not {', '.join(missing)}", _RBAC)
    if not any(facts.denied.values()):
        yield ok("rbac", "the accounts of the components have their permissions")


_RBAC = "apply the roles of the installation: kubectl apply -k deploy/rbac"


def webhook(facts: Facts) -> Iterator[Finding]:
    """Check that the webhook is registered, that it has a CA and its Service has a pod."""
    if facts.webhooks is None:
        yield skipped("webhook", "you may not list mutating webhook configurations")
        return
    if not facts.webhooks:
        yield error(
            "webhook",
            "",
            "no webhook for pods and VPAs is registered, so new pods stay as they are",
            "see the log of vpa-admission-controller, which registers it",
        )
        return
    if len(facts.webhooks) > 1:
        names = ", ".join(each.configuration for each in facts.webhooks)
        yield warning("webhook", "", f"several are registered: {names}", "delete all but one")
    for each in facts.webhooks:
        problems = list(_webhook_problems(each))
        yield from problems
        if not problems:
            yield ok("webhook", f"{each.configuration} calls {_target(each)}")


def _webhook_problems(each: Webhook) -> Iterator[Finding]:
    about = each.configuration
    if each.service_exists is False:
        yield error("webhook", about, f"Service {_target(each)} doesn't exist", _MANIFESTS)
    elif each.ready_endpoints == 0:
        yield error(
            "webhook",
            about,
            f"Service {_target(each)} has no ready pod",
            f"kubectl -n {each.namespace} get pods -l app={ADMISSION}",
        )
    restart = f"restart {ADMISSION}, which registers its CA, or see certificates.md"
    if each.ca_bundle and each.expires is None:
        yield error("webhook", about, "its CA bundle is no certificate", restart)
    elif not each.ca_bundle and not each.url:
        yield error("webhook", about, "it has no CA bundle, so no call can succeed", restart)


def _target(each: Webhook) -> str:
    return each.url or f"{each.namespace}/{each.service}"


def dry_run(facts: Facts) -> Iterator[Finding]:
    """Check that a pod of a VPA comes back patched; it is created in a dry run."""
    tried = facts.dry_run
    if tried is None:
        yield skipped("dry-run", "no VPA that changes pods has a recommendation and a pod")
    elif tried.refused:
        yield skipped("dry-run", f"a pod of VPA {tried.vpa} was refused: {tried.refused}")
    elif tried.patched:
        yield ok("dry-run", f"a new pod of VPA {tried.vpa} would be patched")
    else:
        yield error(
            "dry-run",
            f"VPA {tried.vpa}",
            "a new pod would not be patched",
            f"see the log of {ADMISSION}; without a line about a pod the API server didn't call "
            "it: check the selectors and the CA of its configuration, and the network to it",
        )


def certificates(facts: Facts) -> Iterator[Finding]:
    """Check that the certificates of the webhook don't end soon, and that its CA signed them."""
    found = [(f"CA of {each.configuration}", each.expires) for each in facts.webhooks or ()]
    found += [(f"Secret {each.secret}", each.expires) for each in facts.certificates]
    ends = [(name, expires) for name, expires in found if expires is not None]
    renew = "see certificates.md: renew it, or see why it was not renewed"
    for name, expires in ends:
        if expires <= facts.now:
            yield error("certificates", name, f"it ended on {expires:%Y-%m-%d}", renew)
        elif expires - facts.now < SOON:
            yield warning("certificates", name, f"it ends on {expires:%Y-%m-%d}", renew)
    untrusted = [each for each in facts.certificates if each.untrusted_by]
    for each in untrusted:
        yield error(
            "certificates",
            f"Secret {each.secret}",
            f"the CA in {each.untrusted_by} didn't sign it, so the API server refuses it",
            f"restart {ADMISSION}, which registers its CA, or see certificates.md",
        )
    if not ends:
        yield skipped("certificates", "no certificate could be read")
    elif not untrusted and all(expires - facts.now >= SOON for _, expires in ends):
        first = min(expires for _, expires in ends)
        yield ok("certificates", f"the first one ends on {first:%Y-%m-%d}")


def features(facts: Facts) -> Iterator[Finding]:
    """Check that cluster and components support what VPAs ask for."""
    problems = False
    if facts.minor is not None and facts.minor < _OLDEST_MINOR:
        problems = True
        yield warning(
            "features",
            f"Kubernetes 1.{facts.minor}",
            f"in-place updates need 1.{_OLDEST_MINOR}",
            "upgrade, or use the modes Recreate and Initial",
        )
    for each in facts.vpas:
        meta, mode = each.vpa.metadata, mode_of(each.vpa)
        about = f"{meta.namespace}/{meta.name}"
        if mode in _IN_PLACE and facts.resize_served is False:
            problems = True
            yield error(
                "features",
                about,
                f"mode {mode}, but the API server has no resize of pods",
                "use the mode Recreate",
            )
        for gate, used in (
            ("InPlace", mode == UpdateMode.IN_PLACE),
            ("CPUStartupBoost", has_startup_boost(each.vpa)),
        ):
            without = _without_gate(facts.components or (), gate) if used else []
            if without:
                problems = True
                yield error(
                    "features",
                    about,
                    f"it needs the feature gate {gate}, which {' and '.join(without)} lack",
                    f"add --feature-gates={gate}=true to them",
                )
    if not problems:
        yield ok("features", "cluster and components support what the VPAs ask for")


def _without_gate(pods: Sequence[ComponentPod], gate: str) -> list[str]:
    """Return the components that have to have a gate, and have it off."""
    found = set()
    for pod in pods:
        if pod.component == RECOMMENDER:
            continue
        try:
            gates = FeatureGates.parse(pod.flags.get("feature-gates", ""))
        except ValueError:
            continue  # gates of another version
        if f"{gate}=true" not in str(gates).split(","):
            found.add(pod.component)
    return sorted(found)


CHECKS = (
    api,
    metrics,
    components,
    leases,
    permissions,
    webhook,
    dry_run,
    certificates,
    features,
)
