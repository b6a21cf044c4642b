"""The explanation of /debug/explain equals the webhook's answer, for all recorded pods."""

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import fastapi
import jsonpatch
import msgspec
import pytest

from admission import debugging
from admission.cluster import VpaMatcher
from admission.pod_reviews import PodVerdict, VpaMatch
from admission.review import AdmissionRequest
from admission.reviewer import Reviewer
from admission.vpa_index import VpaIndex
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec
from common.api.meta import LabelSelector, ObjectMeta
from common.kube.cache import Change
from common.kube.targets import TargetError
from common.labels import Selector, from_label_selector
from common.quantity import ZERO, Quantity
from common.target.owners import Controller
from golden_data import Differences, Row, rows
from ops_caller import post
from webhook_harness import Harness

PARTS = 9  # the recorded pods are split to keep each test short


class RecordedCluster:
    """The VPAs and LimitRanges of a row. A pod's direct owner is the topmost controller."""

    synced = True

    def __init__(self, row: Row) -> None:
        index = VpaIndex()
        self._selectors: dict[str, Selector] = {}
        for raw in row.input["vpas"]:
            vpa = msgspec.convert(raw["object"], VerticalPodAutoscaler)
            index.apply(Change(None, vpa))
            if raw["target_selector"] is not None:
                selector = msgspec.convert(raw["target_selector"], LabelSelector)
                self._selectors[vpa.metadata.name] = from_label_selector(selector)
        self._limits = msgspec.convert(row.input["limit_ranges"], tuple[LimitRangeSpec, ...])
        self._matcher = VpaMatcher(index, self)

    async def match(self, pod: ObjectMeta) -> VpaMatch:
        return await self._matcher.match(pod)

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeSpec]:
        return self._limits

    async def topmost(self, controller: Controller) -> Controller | None:
        return controller

    async def selector(self, vpa: VerticalPodAutoscaler) -> Selector:
        if vpa.metadata.name not in self._selectors:
            raise TargetError("the target has no selector")
        return self._selectors[vpa.metadata.name]


class Explaining:
    """An application with the endpoint, for one row after the other."""

    def __init__(self) -> None:
        self.app = fastapi.FastAPI()
        self.app.include_router(debugging.router(self._judge))
        self.reviewer: Reviewer | None = None  # of the present row

    async def _judge(self, request: AdmissionRequest) -> PodVerdict:
        assert self.reviewer is not None
        return await self.reviewer.judge(request)


async def answered_and_explained(
    row: Row, explaining: Explaining
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the response to the row's review, and the explanation of the row's pod."""
    most = row.input["max_allowed_cpu_boost"]
    gates = ",".join(f"{name}={value}" for name, value in row.input["feature_gates"].items())
    harness = Harness(
        RecordedCluster(row), gates=gates, most_boost=Quantity.parse(most) if most else ZERO
    )
    request = row.input["review"]["request"]
    response = await harness.review(request)
    explaining.reviewer = harness.reviewer
    namespace = request["namespace"]
    manifest = {"apiVersion": "v1", "kind": "Pod"} | request["object"]
    manifest["metadata"] = manifest["metadata"] | {"namespace": namespace}
    answer = await post(explaining.app, debugging.PATH, json.dumps(manifest).encode())
    assert answer.status == 200, answer.body
    explained: dict[str, Any] = json.loads(answer.body)
    patched = jsonpatch.apply_patch(manifest, explained["patch"])
    assert explained["pod"] == patched
    return response, explained


def on_resources(patch: Sequence[Any]) -> dict[str, str]:
    """Return the quantities that a patch writes, by path."""
    return {
        each["path"]: each["value"]
        for each in patch
        if each["path"].startswith("/spec/containers/") and each["value"] != {}
    }


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_explained_patch_equals_the_answer_and_each_number_has_steps(
    part: int,
) -> None:
    differences, explaining = Differences(), Explaining()
    for row in islice(rows("admission_pods"), part, None, PARTS):
        response, explained = await answered_and_explained(row, explaining)
        differences.check(row.id, "patch", explained["patch"], response.get("patch", []))
        patched = explained["outcome"] == "patched"
        differences.check(row.id, "outcome", patched, "patch" in response)
        numbers = [each for container in explained["containers"] for each in container["numbers"]]
        by_number = {each["path"]: each["steps"][-1]["value"] for each in numbers if each["path"]}
        differences.check(row.id, "numbers", by_number, on_resources(explained["patch"]))
    differences.none_in(4500 // PARTS)
