"""The workloads that ``kubectl vpa create`` considers, and its messages."""

from collections.abc import Mapping, Sequence

import pytest

from common.labels import NOTHING, Selector, parse_selector
from common.target.owners import Controller
from common.vpa_creation.new_vpas import Creator, NewVpa, SkippedWorkload, SkipReason, new_vpas
from common.vpa_creation.policy import CreationPolicy, parse_policy
from created_vpas import hpa_of
from kubectl_vpa.judge.selected_workloads import (
    Exclusion,
    ListedWorkload,
    candidates,
    conflict_message,
    namespaces_left_out,
    skip_message,
)

WEB = Controller("shop", "Deployment", "web", "apps/v1")


def listed(
    name: str = "web", namespace: str = "shop", labels: Mapping[str, str] | None = None
) -> ListedWorkload:
    workload = Controller(namespace, "Deployment", name, "apps/v1")
    return ListedWorkload(workload=workload, owner=None, labels=labels or {})


@pytest.mark.parametrize(
    ("patterns", "selector", "excluded"),
    [
        pytest.param((), "", False, id="nothing"),
        pytest.param(("web",), "", True, id="its name"),
        pytest.param(("we",), "", False, id="a part of its name"),
        pytest.param(("api", "w*"), "", True, id="a pattern"),
        pytest.param(("deployment/web",), "", True, id="kind and name"),
        pytest.param(("Deployment/w*",), "", True, id="the kind in another case"),
        pytest.param(("StatefulSet/web",), "", False, id="another kind"),
        pytest.param(("WEB",), "", False, id="the name in another case"),
        pytest.param((), "tier=front", True, id="its labels"),
        pytest.param((), "tier=back", False, id="other labels"),
    ],
)
def test_exclusion(patterns: Sequence[str], selector: str, *, excluded: bool) -> None:
    chosen: Selector = parse_selector(selector) if selector else NOTHING
    exclusion = Exclusion(patterns=patterns, selector=chosen)
    found = list(candidates([listed(labels={"tier": "front"})], exclusion))
    assert (found == []) is excluded


@pytest.mark.parametrize(
    ("labels", "excluded"),
    [
        pytest.param({"vpa.autoscaling/enable": "false"}, True, id="false"),
        pytest.param({"vpa.autoscaling/enable": "true"}, False, id="true"),
        pytest.param({}, False, id="none"),
    ],
)
def test_the_label_of_a_workload_excludes_it(labels: Mapping[str, str], *, excluded: bool) -> None:
    (found,) = candidates([listed(labels=labels)], Exclusion())
    assert found.excluded is excluded


def test_namespaces_of_kubernetes_and_of_components_are_left_out() -> None:
    found = [
        listed(),
        listed(namespace="vpa", labels={"app": "vpa-updater"}),
        listed(namespace="reference", labels={"app.kubernetes.io/name": "vertical-pod-autoscaler"}),
    ]
    system = {"kube-node-lease", "kube-public", "kube-system"}
    assert namespaces_left_out(found) == system | {"vpa", "reference"}


@pytest.mark.parametrize(
    ("reason", "other", "message"),
    [
        (SkipReason.OWNED, "Deployment web", ""),
        (SkipReason.HAS_VPA, "old", "Deployment shop/web: VPA old targets it already"),
        (
            SkipReason.OWNED_BY_CUSTOM_KIND,
            "Shop main",
            "workloads of Shop main in shop: create a VPA by hand",
        ),
        (
            SkipReason.EXCLUDED,
            "",
            "Deployment shop/web: it has the label vpa.autoscaling/enable=false",
        ),
        (
            SkipReason.NO_FREE_NAME,
            "",
            "Deployment shop/web: other VPAs have all names for it; choose another --name",
        ),
    ],
)
def test_the_reason_for_no_vpa_in_words(reason: SkipReason, other: str, message: str) -> None:
    assert skip_message(SkippedWorkload(workload=WEB, reason=reason, other=other)) == message


def test_every_reason_has_a_message() -> None:
    for reason in SkipReason:
        text = skip_message(SkippedWorkload(workload=WEB, reason=reason))
        assert bool(text) is (reason is not SkipReason.OWNED)


SHARED = "Deployment shop/web: HPA scaler scales on the use of"


@pytest.mark.parametrize(
    ("settings", "resources", "message"),
    [
        pytest.param({"mode": "Recreate"}, (), "", id="no HPA"),
        pytest.param(
            {"mode": "Recreate"},
            ("cpu",),
            f"{SHARED} cpu: the VPA controls memory only",
            id="one resource is left",
        ),
        pytest.param(
            {"mode": "Recreate"},
            ("cpu", "memory"),
            f"{SHARED} cpu and memory: the VPA has mode Off, because it has no other resource",
            id="none is left",
        ),
        pytest.param(
            {},
            ("cpu",),
            f"{SHARED} cpu: mode Off changes nothing; leave cpu out before you choose another mode",
            id="mode Off",
        ),
    ],
)
def test_a_conflict_with_an_hpa_in_words(
    settings: Mapping[str, str], resources: Sequence[str], message: str
) -> None:
    policy = parse_policy(settings)
    assert conflict_message(created(policy, resources)) == message


def created(policy: CreationPolicy, resources: Sequence[str]) -> NewVpa:
    """Return the VPA beside an HPA for each of the resources."""
    (found,) = candidates([listed()], Exclusion())
    hpas = {WEB.key: [hpa_of("scaler", name) for name in resources]}
    (new,) = new_vpas([found], [], hpas, {"shop": policy}, creator=Creator.COMMAND)
    assert isinstance(new, NewVpa)
    return new
