"""The webhook: patched pods, validated VPAs, and its registration."""

import json
from typing import Any

import pytest
import yaml

from common.quantity import parse_milli, parse_value
from e2e.cluster import LIMIT_RANGES, Case
from e2e.installation import ADMISSION
from e2e.pods import LARGE, Object, requests
from workloads import autoscaler

_UPDATES = "vpaUpdates"
_WEBHOOKS = "mutatingwebhookconfigurations"


@pytest.mark.concurrent
async def test_a_new_pod_gets_the_recommendation(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "Initial")
    target = await case.wait_for_recommendation("web")
    await case.cluster.kubectl("delete", "pod", "--all", namespace=case.namespace)
    (pod,) = await case.wait_until_measured("web", replicas=1)
    assert requests(pod) == target
    assert "Pod resources updated by web" in pod["metadata"]["annotations"][_UPDATES]


async def test_a_pod_is_created_as_it_was_sent_while_the_webhook_is_down(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "Initial")
    await case.wait_for_recommendation("web")
    async with case.cluster.installation.scaled_to_zero(ADMISSION):
        await case.cluster.kubectl("delete", "pod", "--all", namespace=case.namespace)
        (pod,) = await case.wait_until_measured("web", replicas=1)
    assert requests(pod) == LARGE
    assert _UPDATES not in pod["metadata"].get("annotations", {})


async def test_a_registration_that_is_deleted_is_back_and_the_next_pod_is_patched(
    case: Case,
) -> None:
    kubectl, name = case.cluster.kubectl, "vpa-webhook-config"
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "Initial")
    target = await case.wait_for_recommendation("web")
    before = json.loads(await kubectl("get", _WEBHOOKS, name, "-o", "json"))
    await kubectl("delete", _WEBHOOKS, name)

    async def back() -> Object:
        code, printed = await kubectl.run("get", _WEBHOOKS, name, "-o", "json")
        found: Object = {} if code else json.loads(printed)
        return found

    after = await case.cluster.wait_for(back, "the registration is back", seconds=30)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["webhooks"] == before["webhooks"]

    # API servers watch registrations, so the first pod may still be unpatched.
    async def patched() -> bool:
        return requests(await _replace_pod(case, "web")) == target

    await case.cluster.wait_for(patched, "the next pod is patched", seconds=30)


@pytest.mark.concurrent
async def test_a_bad_quantity_is_refused_with_the_references_message(case: Case) -> None:
    policy = {"containerName": "app", "maxAllowed": {"cpu": "much"}}
    path = case.write_vpa(autoscaler("web", resourcePolicy={"containerPolicies": [policy]}))
    code, printed = await case.cluster.kubectl.run("create", "-f", path, namespace=case.namespace)
    assert code == 1
    assert (
        'The VerticalPodAutoscaler "web" is invalid: .: Internal error: '
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'\n"
    ) in printed
    field = "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]"
    assert f'Warning: {field}: "much" is not a quantity\n' in printed


async def _replace_pod(case: Case, app: str) -> Object:
    """Delete the only pod of a Deployment; return its replacement from ``kubectl get pod``."""
    await case.cluster.kubectl("delete", "pod", "--all", namespace=case.namespace)
    (name,) = [pod["metadata"]["name"] for pod in await case.wait_until_measured(app, replicas=1)]
    printed = await case.cluster.kubectl("get", "pod", name, "-o", "yaml", namespace=case.namespace)
    pod: Object = yaml.safe_load(printed)
    return pod


@pytest.mark.concurrent
async def test_limits_keep_their_proportion_in_what_kubectl_shows(case: Case) -> None:
    limits = {"cpu": "1600m", "memory": "2Gi"}
    await case.deploy("web", replicas=1, requests=LARGE, limits=limits)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "Initial")
    target = await case.wait_for_recommendation("web")
    pod = await _replace_pod(case, "web")
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == target
    # The template's limits are twice its requests.
    assert parse_milli(resources["limits"]["cpu"]) == 2 * parse_milli(target["cpu"])
    assert parse_value(resources["limits"]["memory"]) == 2 * parse_value(target["memory"])
    annotations = pod["metadata"]["annotations"]
    assert annotations[_UPDATES] == (
        "Pod resources updated by web: container 0: "
        "cpu request, memory request, cpu limit, memory limit"
    )
    assert annotations["vpaObservedContainers"] == "app"


@pytest.mark.concurrent
async def test_the_policy_decides_which_numbers_a_pod_gets(case: Case) -> None:
    limits = {"cpu": "1600m", "memory": "2Gi"}
    await case.deploy("web", replicas=1, requests=LARGE, limits=limits)
    await case.wait_until_measured("web", replicas=1)
    policy = {
        "containerName": "*",
        "minAllowed": {"cpu": "333m"},
        "controlledResources": ["cpu"],
        "controlledValues": "RequestsOnly",
    }
    await case.create_vpa("web", "Initial", resourcePolicy={"containerPolicies": [policy]})
    assert await case.wait_for_recommendation("web") == {"cpu": "333m"}
    resources = (await _replace_pod(case, "web"))["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {**LARGE, "cpu": "333m"}, "limits": limits}


@pytest.mark.concurrent
async def test_a_limit_range_is_obeyed_and_named_in_the_annotation(case: Case) -> None:
    least = {"type": "Container", "min": {"cpu": "345m", "memory": "10Mi"}}
    limit_range = {"metadata": {"name": "least"}, "spec": {"limits": [least]}}
    await case.create(LIMIT_RANGES, limit_range)
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "Initial")
    target = await case.wait_for_recommendation("web")
    assert parse_milli(target["cpu"]) < 345
    pod = await _replace_pod(case, "web")
    assert requests(pod) == {**target, "cpu": "345m"}
    updates = pod["metadata"]["annotations"][_UPDATES]
    assert "cpu capped to fit Min in container LimitRange" in updates


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
            id="a feature with its gate off",
        ),
    ],
)
async def test_kubectl_shows_why_a_vpa_is_refused(
    case: Case, spec: dict[str, Any], sentence: str
) -> None:
    path = case.write_vpa(autoscaler("web", **spec))
    code, printed = await case.cluster.kubectl.run("create", "-f", path, namespace=case.namespace)
    assert code == 1
    assert 'The VerticalPodAutoscaler "web" is invalid: ' in printed
    assert sentence in printed


@pytest.mark.concurrent
async def test_a_vpa_without_a_policy_is_shown_with_its_default_and_auto_with_a_warning(
    case: Case,
) -> None:
    kubectl = case.cluster.kubectl
    plain = autoscaler("plain")
    del plain["spec"]["updatePolicy"]
    for manifest in (plain, autoscaler("auto", "Auto")):
        path = case.write_vpa(manifest)
        printed = await kubectl("create", "-f", path, namespace=case.namespace)
        warned = 'Warning: spec.updatePolicy: "Auto" mode is deprecated' in printed
        assert warned == (manifest is not plain)
    printed = await kubectl("get", "vpa", "plain", "-o", "yaml", namespace=case.namespace)
    assert yaml.safe_load(printed)["spec"]["updatePolicy"] == {"updateMode": "Recreate"}


@pytest.mark.concurrent
async def test_the_webhook_is_ready_and_checks_itself(case: Case) -> None:
    cluster = case.cluster
    assert await cluster.ops_response(ADMISSION, "/readyz") == "OK"

    async def counted() -> bool:
        metrics = await cluster.ops_response(ADMISSION)
        return 'vpa_admission_controller_self_checks_total{result="right"} 0.0' not in metrics

    await cluster.wait_for(counted, "the webhook has called itself")
