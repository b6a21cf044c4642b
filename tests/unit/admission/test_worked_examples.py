"""Examples 20 and 21 of admission.md section 14; ``test_pod_patch`` has 1 to 19.

Other tests: parts of a pod that have no effect, such as init containers and annotations of an
earlier admission.
"""

import json
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.pod_patch import pod_patch
from admission.vpa_decoding import decode
from admission.vpa_validation import VpaVerdict, admit_vpa
from builders import container, pod, recommendation, vpa
from common.api.autoscaling import GenericStartupBoost, StartupBoost, VerticalPodAutoscaler
from common.api.core import Pod
from common.features import FeatureGates
from common.quantity import ZERO

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
BOOST = FeatureGates(cpu_startup_boost=True)


def verdict_of(**spec: Any) -> VpaVerdict:
    document = {"metadata": {"name": "my-vpa"}, "spec": {"targetRef": TARGET, **spec}}
    return admit_vpa(decode(json.dumps(document).encode()), None, FeatureGates())


def test_20_a_missing_policy_becomes_recreate() -> None:
    verdict = verdict_of()
    assert list(msgspec.to_builtins(verdict.patches)) == [
        {"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}
    ]
    assert (list(verdict.errors), list(verdict.warnings)) == ([], [])


def test_20_an_empty_policy_is_denied() -> None:
    (error,) = verdict_of(updatePolicy={}).errors
    assert error.field == "spec.updatePolicy.updateMode"
    assert "Required" in error.message


def test_20_auto_is_allowed_with_a_warning() -> None:
    verdict = verdict_of(updatePolicy={"updateMode": "Auto"})
    assert (list(verdict.errors), list(verdict.patches)) == ([], [])
    assert len(verdict.warnings) == 1


def test_21_a_resource_in_two_requirements_is_denied() -> None:
    requirements = [
        {"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"},
        {"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"},
    ]
    policy = {"updateMode": "Recreate", "evictionRequirements": requirements}
    (error,) = verdict_of(updatePolicy=policy).errors
    assert error.field == "spec.updatePolicy.evictionRequirements"
    assert "cpu" in error.message


def patched(given: dict[str, Any], autoscaler: VerticalPodAutoscaler) -> dict[str, Any]:
    operations = pod_patch(
        msgspec.convert(given, Pod), autoscaler, (), features=BOOST, most_boost=ZERO
    ).operations
    after: dict[str, Any] = jsonpatch.apply_patch(given, msgspec.to_builtins(operations))
    return after


def plain_pod(**annotations: str) -> dict[str, Any]:
    app = container(requests={"cpu": "100m"}, limits={"cpu": "300m"})
    given: dict[str, Any] = msgspec.to_builtins(
        pod(containers=(app,), annotations={"owner": "us", **annotations})
    )
    return given


@pytest.mark.parametrize("restart", [None, "Always"], ids=["init container", "native sidecar"])
def test_init_containers_are_neither_changed_nor_listed(restart: str | None) -> None:
    """A11: a recommendation for an init container is for no container of the pod."""
    given = plain_pod()
    first = {"name": "init", "resources": {"requests": {"cpu": "7m"}}}
    given["spec"]["initContainers"] = [first | ({"restartPolicy": restart} if restart else {})]
    recommended = (recommendation("init"), recommendation(target={"cpu": "200m"}))
    after = patched(given, vpa(recommendations=recommended))
    assert after["spec"]["initContainers"] == given["spec"]["initContainers"]
    assert after["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}
    assert after["metadata"]["annotations"]["vpaObservedContainers"] == "app"


def test_annotations_of_an_earlier_admission_are_replaced() -> None:
    given = plain_pod(vpaUpdates="earlier", vpaObservedContainers="app, gone")
    after = patched(given, vpa(recommendations=(recommendation(target={"cpu": "200m"}),)))
    assert after["metadata"]["annotations"] == {
        "owner": "us",
        "vpaUpdates": "Pod resources updated by web: container 0: "
        "memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit",
        "vpaObservedContainers": "app",
    }


def boosting_vpa(*, recommended: bool) -> VerticalPodAutoscaler:
    given = vpa(recommendations=(recommendation(target={"cpu": "150m"}),) if recommended else None)
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2))
    spec = msgspec.structs.replace(given.spec, startup_boost=boost)
    return msgspec.structs.replace(given, spec=spec)


@pytest.mark.parametrize(
    ("recommended", "cpu"),
    [pytest.param(True, ("300m", "900m"), id="17"), pytest.param(False, ("200m", "600m"), id="18")],
)
def test_a21_a_boosted_pod_is_not_boosted_again(cpu: tuple[str, str], *, recommended: bool) -> None:
    """Examples 17 and 18 applied twice, with and without a recommendation."""
    autoscaler = boosting_vpa(recommended=recommended)
    once = patched(plain_pod(), autoscaler)
    assert once["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": cpu[0]},
        "limits": {"cpu": cpu[1]},
    }
    assert patched(once, autoscaler) == once
