"""Native sidecars in the patch of a new pod (AEP-8905, X107)."""

from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.explanation import explain
from admission.metrics import ReviewOutcome
from admission.patch_cache import PatchCache
from admission.pod_patch import pod_patch
from admission.pod_reviews import PodVerdict, ReviewPolicy, VpaMatch, judge
from admission.review import AdmissionRequest, GroupVersionResource
from builders import container, recommendation, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
)
from common.api.core import Pod, PodWithSidecars
from common.features import FeatureGates
from common.quantity import ZERO
from sidecars import pod_with_init, sidecar

ON = FeatureGates(native_sidecar=True, cpu_startup_boost=True)
OFF = FeatureGates(cpu_startup_boost=True)
PLAIN = container("migrate", requests={"cpu": "1"})
APP = container("app", requests={"cpu": "100m"})
PROXY = sidecar(requests={"cpu": "50m"}, limits={"cpu": "100m"})
RECOMMENDED = (
    recommendation("app", target={"cpu": "200m"}),
    recommendation("proxy", target={"cpu": "80m"}),
    recommendation("migrate", target={"cpu": "7m"}),
)


def patched(
    given: Pod, autoscaler: VerticalPodAutoscaler, gates: FeatureGates = ON
) -> tuple[list[str], dict[str, Any]]:
    """Return the paths of the operations, and the patched pod."""
    operations = pod_patch(given, autoscaler, (), features=gates, most_boost=ZERO).operations
    after: dict[str, Any] = jsonpatch.apply_patch(
        msgspec.to_builtins(given), msgspec.to_builtins(operations)
    )
    return [each.path for each in operations], after


def test_sidecars_are_patched_after_the_regular_containers() -> None:
    given = pod_with_init(PLAIN, PROXY, containers=(APP,), annotations={})
    paths, after = patched(given, vpa(recommendations=RECOMMENDED))
    assert paths == [
        "/spec/containers/0/resources/requests/cpu",
        "/spec/initContainers/1/resources/requests/cpu",
        "/spec/initContainers/1/resources/limits/cpu",
        "/metadata/annotations/vpaUpdates",
        "/metadata/annotations/vpaObservedContainers",
    ]
    migrate, proxy = after["spec"]["initContainers"]
    assert migrate["resources"] == {"requests": {"cpu": "1"}}
    assert proxy["resources"] == {"requests": {"cpu": "80m"}, "limits": {"cpu": "160m"}}
    assert after["metadata"]["annotations"] == {
        "vpaUpdates": "Pod resources updated by web: container 0: cpu request; "
        "native sidecar 1: memory: limit NOT set since originalLimit is nil or 0, "
        "cpu request, cpu limit",
        "vpaObservedContainers": "app, proxy",
    }


def test_missing_maps_of_a_sidecar_are_added_first() -> None:
    given = pod_with_init(msgspec.structs.replace(sidecar(), resources=None), containers=(APP,))
    paths, after = patched(given, vpa(recommendations=RECOMMENDED))
    root = "/spec/initContainers/0/resources"
    assert [path for path in paths if path.startswith(root)] == [
        root,
        f"{root}/requests",
        f"{root}/requests/cpu",
    ]
    (proxy,) = after["spec"]["initContainers"]
    assert proxy["resources"] == {"requests": {"cpu": "80m"}}


def test_a_sidecar_of_mode_off_is_unchanged() -> None:
    off = ContainerPolicy(container_name="proxy", mode="Off")
    paths, _ = patched(
        pod_with_init(PROXY, containers=(APP,)), vpa(recommendations=RECOMMENDED, policies=(off,))
    )
    assert not [path for path in paths if "initContainers" in path]


def boosting_vpa() -> VerticalPodAutoscaler:
    given = vpa(recommendations=RECOMMENDED)
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2))
    spec = msgspec.structs.replace(given.spec, startup_boost=boost)
    return msgspec.structs.replace(given, spec=spec)


def test_a_sidecar_is_boosted_once() -> None:
    given = pod_with_init(PLAIN, PROXY, containers=(APP,), annotations={})
    _, once = patched(given, boosting_vpa())
    migrate, proxy = once["spec"]["initContainers"]
    assert migrate["resources"] == {"requests": {"cpu": "1"}}
    assert proxy["resources"] == {"requests": {"cpu": "160m"}, "limits": {"cpu": "320m"}}
    boosts = {name for name in once["metadata"]["annotations"] if "StartupBoost" in name}
    assert boosts == {"vpaCpuStartupBoost/app", "vpaCpuStartupBoost/proxy"}
    _, twice = patched(msgspec.convert(once, PodWithSidecars), boosting_vpa())
    assert twice == once


# Complete reviews, with and without the feature gate


class OneVpaCluster:
    """A cluster in which one VPA controls every pod."""

    def __init__(self, autoscaler: VerticalPodAutoscaler) -> None:
        self._autoscaler = autoscaler
        self.synced = True

    async def match(self, _: object) -> VpaMatch:
        return VpaMatch(vpa=self._autoscaler)

    def limit_ranges(self, _: str) -> tuple[()]:
        return ()


def request(given: Pod) -> AdmissionRequest:
    return AdmissionRequest(
        name="web-0",
        resource=GroupVersionResource(version="v1", resource="pods"),
        namespace="default",
        operation="CREATE",
        object=msgspec.Raw(msgspec.json.encode(given)),
    )


async def reviewed(given: Pod, gates: FeatureGates) -> PodVerdict:
    return await judge(
        request(given),
        OneVpaCluster(boosting_vpa()),
        ReviewPolicy(features=gates),
        cache=PatchCache(features=gates, most_boost=ZERO),
        lookup_timeout=1.0,
    )


@pytest.mark.parametrize(
    ("gates", "want"), [(ON, "app, proxy"), (OFF, "app")], ids=["gate on", "gate off"]
)
async def test_a_review_covers_sidecars_only_with_the_gate(gates: FeatureGates, want: str) -> None:
    verdict = await reviewed(pod_with_init(PLAIN, PROXY, gate=False, containers=(APP,)), gates)
    assert verdict.outcome is ReviewOutcome.PATCHED
    values = {each.path: each.value for each in verdict.patches}
    assert values["/metadata/annotations/vpaObservedContainers"] == want
    touched = [path for path in values if "initContainers" in path or "Boost~1proxy" in path]
    assert bool(touched) is (gates is ON)
    assert not [path for path in values if "initContainers/0" in path or "migrate" in path]


@pytest.mark.parametrize("gates", [ON, OFF], ids=["gate on", "gate off"])
async def test_an_explanation_lists_the_patched_sidecars(gates: FeatureGates) -> None:
    given = pod_with_init(PLAIN, PROXY, gate=False, containers=(APP,))
    explained = explain(await reviewed(given, gates), request(given))
    by_name = {each.name: each for each in explained.containers}
    written = {number.path for number in by_name["proxy"].numbers if number.path is not None}
    root = "/spec/initContainers/1/resources"
    want = {f"{root}/requests/cpu", f"{root}/limits/cpu"} if gates is ON else set()
    assert written == want
    assert bool(by_name["proxy"].note) is (gates is OFF)
    assert by_name["migrate"].note
