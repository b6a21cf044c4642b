"""The webhook's promises."""

import json
from typing import Any

import pytest
import yaml

from common.quantity import parse_milli, parse_value
from e2e.installation import ADMISSION
from e2e.pods import LARGE, Object, requests
from e2e.world import LIMIT_RANGES, Case

_TOLD = "vpaUpdates"
_WEBHOOKS = "mutatingwebhookconfigurations"


@pytest.mark.concurrent
async def test_a_new_pod_gets_the_recommendation(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial")
    target = await case.recommended("web")
    await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
    (pod,) = await case.running("web", replicas=1)
    assert requests(pod) == target
    assert "Pod resources updated by web" in pod["metadata"]["annotations"][_TOLD]


async def test_a_pod_is_created_as_it_was_sent_while_the_webhook_is_down(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial")
    await case.recommended("web")
    async with case.world.installation.without(ADMISSION):
        await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
        (pod,) = await case.running("web", replicas=1)
    assert requests(pod) == LARGE
    assert _TOLD not in pod["metadata"].get("annotations", {})


async def test_a_registration_that_is_deleted_is_back_and_the_next_pod_is_patched(
    case: Case,
) -> None:
    kubectl, name = case.world.kubectl, "vpa-webhook-config"
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial")
    target = await case.recommended("web")
    before = json.loads(await kubectl("get", _WEBHOOKS, name, "-o", "json"))
    await kubectl("delete", _WEBHOOKS, name)

    async def back() -> Object:
        code, printed = await kubectl.try_("get", _WEBHOOKS, name, "-o", "json")
        found: Object = {} if code else json.loads(printed)
        return found

    after = await case.world.until(back, "the registration is back", seconds=30)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["webhooks"] == before["webhooks"]

    # API servers learn of it by a watch, and the first pod may be faster than that.
    async def patched() -> bool:
        return requests(await _replaced(case, "web")) == target

    await case.world.until(patched, "the next pod is patched", seconds=30)


@pytest.mark.concurrent
async def test_a_vpa_that_says_nonsense_is_refused(case: Case) -> None:
    manifest = (
        "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n"
        "metadata: {name: web}\nspec:\n"
        "  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
        "  updatePolicy: {updateMode: Recreate, minReplicas: 0}\n"
    )
    path = case.world.kubectl.kubeconfig.with_name("nonsense.yaml")
    path.write_text(manifest)
    code, printed = await case.world.kubectl.try_(
        "create", "-f", str(path), namespace=case.namespace
    )
    assert code == 1
    assert "minReplicas" in printed


async def _shown(case: Case, app: str) -> Object:
    """The one pod of a Deployment, as ``kubectl get pod -o yaml`` shows it."""
    (name,) = [pod["metadata"]["name"] for pod in await case.running(app, replicas=1)]
    printed = await case.world.kubectl("get", "pod", name, "-o", "yaml", namespace=case.namespace)
    pod: Object = yaml.safe_load(printed)
    return pod


@pytest.mark.concurrent
async def test_a_bad_quantity_is_refused_in_the_references_words(case: Case) -> None:
    manifest = (
        "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n"
        "metadata: {name: web}\nspec:\n"
        "  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
        "  resourcePolicy:\n    containerPolicies:\n"
        "    - {containerName: app, maxAllowed: {cpu: much}}\n"
    )
    path = case.world.kubectl.kubeconfig.with_name("bad-quantity.yaml")
    path.write_text(manifest)
    code, printed = await case.world.kubectl.try_(
        "create", "-f", str(path), namespace=case.namespace
    )
    assert code == 1
    assert (
        'The VerticalPodAutoscaler "web" is invalid: .: Internal error: '
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'\n"
    ) in printed
    field = "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]"
    assert f'Warning: {field}: "much" is not a quantity\n' in printed


async def _replaced(case: Case, app: str) -> Object:
    """The pod that takes the place of a Deployment's one pod."""
    await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
    return await _shown(case, app)


@pytest.mark.concurrent
async def test_limits_keep_their_proportion_in_what_kubectl_shows(case: Case) -> None:
    limits = {"cpu": "1600m", "memory": "2Gi"}
    await case.deploy("web", replicas=1, requests=LARGE, limits=limits)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial")
    target = await case.recommended("web")
    pod = await _replaced(case, "web")
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == target
    # Twice the request, as before.
    assert parse_milli(resources["limits"]["cpu"]) == 2 * parse_milli(target["cpu"])
    assert parse_value(resources["limits"]["memory"]) == 2 * parse_value(target["memory"])
    annotations = pod["metadata"]["annotations"]
    assert annotations[_TOLD] == (
        "Pod resources updated by web: container 0: "
        "cpu request, memory request, cpu limit, memory limit"
    )
    assert annotations["vpaObservedContainers"] == "app"


@pytest.mark.concurrent
async def test_the_policy_decides_which_numbers_a_pod_gets(case: Case) -> None:
    limits = {"cpu": "1600m", "memory": "2Gi"}
    await case.deploy("web", replicas=1, requests=LARGE, limits=limits)
    await case.running("web", replicas=1)
    policy = {
        "containerName": "*",
        "minAllowed": {"cpu": "333m"},
        "controlledResources": ["cpu"],
        "controlledValues": "RequestsOnly",
    }
    await case.autoscale("web", "Initial", resourcePolicy={"containerPolicies": [policy]})
    assert await case.recommended("web") == {"cpu": "333m"}
    resources = (await _replaced(case, "web"))["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {**LARGE, "cpu": "333m"}, "limits": limits}


@pytest.mark.concurrent
async def test_a_limit_range_is_obeyed_and_its_doing_is_told(case: Case) -> None:
    least = {"type": "Container", "min": {"cpu": "345m", "memory": "10Mi"}}
    limit_range = {"metadata": {"name": "least"}, "spec": {"limits": [least]}}
    await case.create(LIMIT_RANGES, limit_range)
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial")
    target = await case.recommended("web")
    assert parse_milli(target["cpu"]) < 345
    pod = await _replaced(case, "web")
    assert requests(pod) == {**target, "cpu": "345m"}
    told = pod["metadata"]["annotations"][_TOLD]
    assert "cpu capped to fit Min in container LimitRange" in told


@pytest.mark.concurrent
@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        pytest.param(
            {"updatePolicy": {"updateMode": "Recreate", "minReplicas": 0}},
            "spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive",
            id="no replicas",
        ),
        pytest.param(
            {"updatePolicy": {}},
            "spec.updatePolicy.updateMode: Required value",
            id="no mode",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}},
            "you must enable feature gate CPUStartupBoost in the admission-controller args",
            id="a feature without its gate",
        ),
    ],
)
async def test_kubectl_shows_why_a_vpa_is_refused(
    case: Case, spec: dict[str, Any], sentence: str
) -> None:
    manifest = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
        | spec,
    }
    path = case.world.kubectl.kubeconfig.with_name(f"{case.namespace}.yaml")
    path.write_text(yaml.safe_dump(manifest))
    code, printed = await case.world.kubectl.try_(
        "create", "-f", str(path), namespace=case.namespace
    )
    assert code == 1
    assert 'The VerticalPodAutoscaler "web" is invalid: ' in printed
    assert sentence in printed


@pytest.mark.concurrent
async def test_a_vpa_without_a_policy_is_shown_with_its_default_and_auto_with_a_warning(
    case: Case,
) -> None:
    kubectl = case.world.kubectl
    for name, spec in (("plain", {}), ("auto", {"updatePolicy": {"updateMode": "Auto"}})):
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        manifest = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name},
            "spec": {"targetRef": target, **spec},
        }
        path = kubectl.kubeconfig.with_name(f"{case.namespace}-{name}.yaml")
        path.write_text(yaml.safe_dump(manifest))
        printed = await kubectl("create", "-f", str(path), namespace=case.namespace)
        assert ('Warning: spec.updatePolicy: "Auto" mode is deprecated' in printed) == bool(spec)
    printed = await kubectl("get", "vpa", "plain", "-o", "yaml", namespace=case.namespace)
    assert yaml.safe_load(printed)["spec"]["updatePolicy"] == {"updateMode": "Recreate"}


@pytest.mark.concurrent
async def test_ready_means_that_the_webhook_answers_itself(case: Case) -> None:
    world = case.world
    assert await world.ops(ADMISSION, "/readyz") == "OK"

    async def counted() -> bool:
        metrics = await world.ops(ADMISSION)
        return 'vpa_admission_controller_self_checks_total{result="right"} 0.0' not in metrics

    await world.until(counted, "the webhook has asked itself")
