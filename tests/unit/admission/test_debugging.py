"""POST /debug/explain: the VPA, the steps of each number, and errors of a manifest."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import fastapi
import jsonpatch
import pytest

from admission import debugging
from admission.cluster import VpaMatcher
from admission.manifest import LARGEST
from admission.pod_reviews import VpaMatch
from admission.reviewer import Reviewer
from admission.vpa_index import VpaIndex
from builders import CREATED, recommendation, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
)
from common.api.core import LimitRangeItem, LimitRangeSpec
from common.api.meta import ObjectMeta
from common.kube.cache import Change
from common.kube.targets import TargetError
from common.labels import EVERYTHING, NOTHING, Selector
from common.target.owners import Controller, OwnerProblem
from ops_caller import Answer, post
from webhook_harness import FakeCluster, Harness

DEPLOYMENT = b"""
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}}
      - {name: proxy}
"""
TEMPLATE_POD = {
    "metadata": {
        "labels": {"app": "web"},
        "generateName": "web-",
        "namespace": "default",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
        ],
    },
    "spec": {
        "containers": [
            {"name": "app", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}},
            {"name": "proxy"},
        ]
    },
}
LONELY = b"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: app}]}}"
POLICY = ContainerPolicy(container_name="*", max_allowed={"cpu": "500m"})
BOOSTED = ContainerPolicy(
    container_name="app",
    startup_boost=StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2)),
)
ADVICE = (recommendation(target={"cpu": "700m"}),)


class FewVpas:
    """A cluster with some VPAs; ``selectors`` has the selectors of their targets, by VPA."""

    synced = True
    limits: tuple[LimitRangeSpec, ...] = ()

    def __init__(
        self,
        *vpas: VerticalPodAutoscaler,
        selectors: Mapping[str, Selector] | None = None,
        topmost: Controller | TargetError | None = None,
    ) -> None:
        index = VpaIndex()
        for each in vpas:
            index.apply(Change(None, each))
        self._selectors = selectors or {}
        self._topmost = topmost
        self._matcher = VpaMatcher(index, self)

    async def match(self, pod: ObjectMeta) -> VpaMatch:
        return await self._matcher.match(pod)

    def limit_ranges(self, namespace: str) -> tuple[LimitRangeSpec, ...]:
        return self.limits

    async def topmost(self, controller: Controller) -> Controller | None:
        if isinstance(self._topmost, TargetError):
            raise self._topmost
        return None if controller.kind == "Job" else controller

    async def selector(self, found: VerticalPodAutoscaler) -> Selector:
        name = found.metadata.name
        if name == "broken":
            raise TargetError("Deployment default/web has no selector")
        return self._selectors.get(name, EVERYTHING)


def app_of(reviewer: Reviewer) -> fastapi.FastAPI:
    app = fastapi.FastAPI()
    app.include_router(debugging.router(reviewer.judge))
    return app


async def ask(
    cluster: Any, body: bytes = DEPLOYMENT, *, query: str = "", accept: str = "*/*"
) -> Answer:
    app = app_of(Harness(cluster).reviewer)
    return await post(app, debugging.PATH, body, query=query, accept=accept)


async def explained(cluster: Any, body: bytes = DEPLOYMENT) -> dict[str, Any]:
    answer = await ask(cluster, body)
    assert (answer.status, answer.media) == (200, "application/json")
    explanation: dict[str, Any] = json.loads(answer.body)
    return explanation


WHOLE = b"""
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      resources: {requests: {cpu: %s}, limits: {cpu: "1"}}
      containers:
      - {name: app, resources: {requests: {cpu: 100m}}}
      - {name: proxy, resources: {requests: {cpu: 100m}}}
"""


async def test_pod_level_resources() -> None:
    explanation = await explained(FewVpas(vpa(recommendations=ADVICE)), WHOLE % b"200m")
    assert explanation["podLevel"] == {
        "requests": {"cpu": "200m"},
        "limits": {"cpu": "1"},
        "numbers": [
            {
                "amount": "request",
                "resource": "cpu",
                "steps": [{"step": "moved along with the containers", "value": "800m"}],
                "path": "/spec/resources/requests/cpu",
                "patched": "800m",
            }
        ],
    }
    answer = await ask(FewVpas(vpa(recommendations=ADVICE)), WHOLE % b"200m", accept="text/plain")
    assert "the pod as a whole\n  has requests cpu 200m; limits cpu 1\n" in answer.body.decode()


async def test_pod_level_resources_without_room() -> None:
    """The proxy has no recommendation and leaves one millicore, which is reserved."""
    body = WHOLE.replace(b"cpu: 100m", b"cpu: 0", 1) % b"101m"
    explanation = await explained(FewVpas(vpa(recommendations=ADVICE)), body)
    assert explanation["why"].startswith(
        "VPA web targets Deployment web; nothing is applied: pod_level_resources_exhausted: "
    )
    assert [each["op"] for each in explanation["patch"]] == ["add", "add"], "annotations alone"
    assert explanation["podLevel"]["numbers"] == []


# The choice of the VPA


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    cluster: Any
    outcome: str
    why: str
    body: bytes = DEPLOYMENT
    fates: tuple[str, ...] = ()


YOUNG = vpa("a", created=CREATED + timedelta(seconds=1))
HANGS = TargetError("no route to host", problem=OwnerProblem.UNHANDLED)
CASES = [
    Case(
        id="one VPA",
        cluster=FewVpas(vpa(recommendations=ADVICE)),
        outcome="patched",
        why="VPA web targets Deployment web",
        fates=("web: chosen",),
    ),
    Case(
        id="the oldest of two",
        cluster=FewVpas(YOUNG, vpa("b", recommendations=ADVICE)),
        outcome="patched",
        why="VPA b targets Deployment web",
        fates=("b: chosen", "a: older_vpa_wins"),
    ),
    Case(
        id="no recommendation",
        cluster=FewVpas(vpa()),
        outcome="patched",
        why="VPA web targets Deployment web, but has no recommendation yet",
        fates=("web: chosen",),
    ),
    Case(
        id="a boost, the gate is off",
        cluster=FewVpas(vpa(policies=(BOOSTED,), recommendations=ADVICE)),
        outcome="patched",
        why="VPA web targets Deployment web; nothing is boosted: the feature gate CPUStartupBoost",
        fates=("web: chosen",),
    ),
    Case(
        id="mode Off",
        cluster=FewVpas(vpa(mode="Off", recommendations=ADVICE)),
        outcome="off",
        why="no VPA that targets Deployment web applies to the pod",
        fates=("web: mode_off",),
    ),
    Case(
        id="a selector of other pods, and an invalid target",
        cluster=FewVpas(vpa("broken"), vpa("other"), selectors={"other": NOTHING}),
        outcome="no_vpa",
        why="no VPA that targets Deployment web applies to the pod",
        fates=("broken: lookup_failed", "other: labels_not_selected"),
    ),
    Case(
        id="another target",
        cluster=FewVpas(vpa(target=("Deployment", "db"))),
        outcome="no_vpa",
        why="no VPA targets Deployment web, the pod's topmost owner",
    ),
    Case(
        id="another namespace",
        cluster=FewVpas(vpa(namespace="shop")),
        outcome="no_vpa",
        why="no VPA of the namespace default has a targetRef",
    ),
    Case(
        id="no controller",
        cluster=FewVpas(vpa()),
        body=LONELY,
        outcome="no_vpa",
        why="the pod has no controller (an owner reference with controller: true), and VPAs "
        "target controllers",
    ),
    Case(
        id="no scalable owner",
        cluster=FewVpas(vpa()),
        body=DEPLOYMENT.replace(b"kind: Deployment", b"kind: Job"),
        outcome="no_vpa",
        why="Job web is neither of a well-known kind nor scalable",
    ),
    Case(
        id="owners that can't be found",
        cluster=FewVpas(vpa(), topmost=HANGS),
        outcome="lookup_failed",
        why="the owner of Deployment web can't be found: no route to host; the pod passes "
        "unchanged",
    ),
    Case(
        id="an invalid recommendation",
        cluster=FewVpas(vpa(recommendations=(recommendation(target={"cpu": "lots"}),))),
        outcome="error",
        why="a number of VPA web or of the pod can't be used: not a quantity: 'lots'",
        fates=("web: chosen",),
    ),
    Case(
        id="caches have not synced",
        cluster=FakeCluster(synced=False),
        outcome="not_synced",
        why="the cluster has not been listed yet; until then pods pass unchanged",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_the_chosen_vpa_and_the_reason(case: Case) -> None:
    explanation = await explained(case.cluster, case.body)
    assert explanation["outcome"] == case.outcome
    assert explanation["why"].startswith(case.why)
    fates = [f"{each['name']}: {each['fate']}" for each in explanation["candidates"]]
    assert fates == list(case.fates)
    assert bool(explanation["patch"]) == (case.outcome == "patched")


async def test_with_its_gate_a_boost_is_a_step() -> None:
    cluster = FewVpas(vpa(policies=(BOOSTED,), recommendations=ADVICE))
    app = app_of(Harness(cluster, gates="CPUStartupBoost=true").reviewer)
    explanation = json.loads((await post(app, debugging.PATH, DEPLOYMENT)).body)
    assert explanation["why"] == "VPA web targets Deployment web"
    request = explanation["containers"][0]["numbers"][0]
    assert request["steps"][-1] == {"step": "start-up boost: Factor 2", "value": "1400m"}
    assert request["patched"] == "1400m"


async def test_a_lookup_that_times_out() -> None:
    explanation = await explained(FakeCluster(TimeoutError()))
    assert explanation["outcome"] == "timed_out"
    assert (
        explanation["why"]
        == "the owner of Deployment web was not found in time; the pod passes unchanged"
    )


# The numbers


async def test_each_number_has_its_steps_and_its_path_in_the_patch() -> None:
    explanation = await explained(FewVpas(vpa(policies=(POLICY,), recommendations=ADVICE)))
    app, proxy = explanation["containers"]
    assert app["policy"] == {"containerName": "*", "maxAllowed": {"cpu": "500m"}}
    assert (app["requests"], app["limits"]) == ({"cpu": "100m"}, {"cpu": "200m"})
    assert app["numbers"][0] == {
        "amount": "request",
        "resource": "cpu",
        "steps": [
            {"step": "recommended in the VPA's status", "value": "700m"},
            {"step": "capped to maxAllowed", "value": "500m"},
        ],
        "path": "/spec/containers/0/resources/requests/cpu",
        "patched": "500m",
    }
    assert proxy["note"] == "nothing is recommended for it, so it stays as it is"
    assert proxy["numbers"] == []


async def test_the_explanation_as_text() -> None:
    cluster = FewVpas(vpa(policies=(POLICY,), recommendations=ADVICE))
    bounds = LimitRangeItem(type="Container", max={"cpu": "2", "memory": "1Gi"})
    cluster.limits = (LimitRangeSpec(limits=(bounds,)),)
    answer = await ask(cluster, accept="text/plain, */*")
    assert answer.media == "text/plain; charset=utf-8"
    lines = answer.body.decode().splitlines()
    assert lines[:5] == [
        "default/web-*: patched",
        "  VPA web targets Deployment web",
        "  owner: Deployment web",
        "  VPA web (Recreate): chosen, the only one",
        "  LimitRange of type Container: max cpu 2, memory 1Gi",
    ]
    start = lines.index("container app")
    assert lines[start : start + 10] == [
        "container app",
        "  has requests cpu 100m; limits cpu 200m",
        '  policy {"containerName":"*","maxAllowed":{"cpu":"500m"}}',
        "  request cpu",
        "    700m  recommended in the VPA's status",
        "    500m  capped to maxAllowed",
        "    500m  patched",
        "  limit cpu",
        "    1  in the proportion to the request that it had before",
        "    1  patched",
    ]
    assert '  add /spec/containers/0/resources/requests/cpu "500m"' in lines


async def test_recommendations_for_other_containers_are_listed_separately() -> None:
    gone = recommendation("gone", target={"cpu": "1"})
    answer = await ask(FewVpas(vpa(recommendations=(*ADVICE, gone))), accept="text/plain")
    lines = answer.body.decode().splitlines()
    start = lines.index("container gone")
    assert lines[start : start + 5] == [
        "container gone",
        "  the pod has no such container",
        "  request cpu",
        "    1  recommended in the VPA's status",
        "    -  dropped: the pod has no such container",
    ]


async def test_only_the_first_recommendations_for_other_containers_are_listed() -> None:
    """Listing all of them would delay reviews of pods."""
    many = (recommendation(f"c{number}", target={"cpu": "1"}) for number in range(5000))
    explanation = await explained(FewVpas(vpa(recommendations=(*many, *ADVICE))))
    assert len(explanation["containers"]) == 102
    assert explanation["containers"][0]["numbers"][0]["patched"] == "700m"


async def test_the_answer_contains_the_patched_pod() -> None:
    explanation = await explained(FewVpas(vpa(recommendations=ADVICE)))
    pod = explanation["pod"]
    assert pod == jsonpatch.apply_patch(TEMPLATE_POD, explanation["patch"])
    app, proxy = pod["spec"]["containers"]
    assert app == {
        "name": "app",
        "resources": {"requests": {"cpu": "700m"}, "limits": {"cpu": "1400m"}},
    }
    assert proxy == {"name": "proxy", "resources": {}}
    assert pod["metadata"]["annotations"]["vpaObservedContainers"] == "app, proxy"
    assert explanation["name"] == "web-*"


async def test_a_pod_that_passes_unchanged_is_answered_as_it_was_posted() -> None:
    explanation = await explained(FewVpas())
    assert (explanation["patch"], explanation["pod"]) == ([], TEMPLATE_POD)


# Errors


async def test_an_invalid_manifest_gets_the_field_and_the_fix() -> None:
    answer = await ask(FewVpas(), b"{apiVersion: v1, kind: Pod, metadata: {}}")
    assert answer.status == 422
    assert json.loads(answer.body) == {
        "error": "there are none",
        "field": "spec.containers",
        "fix": "give the pod at least one container",
    }


async def test_an_error_as_text() -> None:
    answer = await ask(FewVpas(), b"", accept="text/plain")
    assert (answer.status, answer.media) == (400, "text/plain; charset=utf-8")
    assert answer.body.decode() == (
        "(the body): it is empty; post a manifest: curl --data-binary @pod.yaml\n"
    )


async def test_contradicting_namespaces() -> None:
    body = LONELY.replace(b"name: a}", b"name: a, namespace: b}")
    answer = await ask(FewVpas(), body, query="namespace=shop")
    assert (answer.status, json.loads(answer.body)["field"]) == (422, "metadata.namespace")


async def test_a_body_above_the_limit_is_not_read_to_its_end() -> None:
    answer = await ask(FewVpas(), b" " * (2 * LARGEST + 2))
    assert answer.status == 413


# Metrics and the OpenAPI document


async def test_explanations_are_not_counted_as_reviews() -> None:
    harness = Harness(FewVpas(vpa(recommendations=ADVICE)))
    await post(app_of(harness.reviewer), debugging.PATH, DEPLOYMENT)
    assert harness.counted("Pod", "patched") == 0


async def test_the_openapi_document_describes_the_endpoint() -> None:
    described = app_of(Harness(FewVpas()).reviewer).openapi()["paths"][debugging.PATH]["post"]
    assert "application/yaml" in described["requestBody"]["content"]
    answers = described["responses"]
    assert sorted(answers) == ["200", "400", "413", "422"]
    schema = answers["200"]["content"]["application/json"]["schema"]
    parts = set(schema["$defs"])
    assert {
        "PodExplanation",
        "CandidateVpa",
        "ContainerExplanation",
        "NumberExplanation",
        "NumberStep",
    } <= parts
    for answer in answers.values():
        assert set(answer["content"]) == {"application/json", "text/plain"}


async def test_every_reference_of_the_openapi_document_resolves() -> None:
    page = app_of(Harness(FewVpas()).reviewer).openapi()
    found = set(re.findall(r'"\$ref": *"#/([^"]+)"', json.dumps(page)))
    assert found
    for reference in found:
        place: Any = page
        for token in reference.split("/"):
            place = place[token.replace("~1", "/")]
        assert {"type", "enum"} & place.keys()
