"""Patches of new pods, compared with the reference's recorded answers.

Rows with a deviation are compared with our own answer. These are rows tagged A13 (a LimitRange of
type Pod and a container without recommendation), rows with a recommendation for a container of mode
Off (A17), and rows in which one of these rules applies: stability of a patched pod (A18, A20),
resources that a recommendation lacks (A28), a native sidecar under a LimitRange for pods (A30).
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonpatch
import msgspec

from admission import review
from admission.pod_patch import pod_patch
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.api.meta import LabelSelector
from common.features import FeatureGates
from common.labels import from_label_selector
from common.quantity import ZERO, Quantity
from common.recommendation.policy import container_policy, is_off
from common.target.controlling import SelectedVpa, can_control_pods, controlling
from common.target.owners import controller_of
from golden_data import Differences, Row, rows

A13 = "admission.md-A13"


def answer(row: Row) -> tuple[dict[str, Any], Any]:
    """Return our response without the patch, and the patch."""
    vpa = vpa_of(row)
    patches: Any = ()
    if vpa is not None:
        gates = ",".join(f"{name}={value}" for name, value in row.input["feature_gates"].items())
        most = row.input["max_allowed_cpu_boost"]
        patches = pod_patch(
            pod_of(row),
            vpa,
            msgspec.convert(row.input["limit_ranges"], tuple[LimitRangeSpec, ...]),
            features=FeatureGates.parse(gates),
            most_boost=Quantity.parse(most) if most else ZERO,
        ).operations
    response = json.loads(review.allow(request_of(row).uid, patches))["response"]
    patch = response.pop("patch", None)
    return response, None if patch is None else json.loads(base64.b64decode(patch))


def request_of(row: Row) -> review.AdmissionRequest:
    request = review.decode(json.dumps(row.input["review"]).encode()).request
    assert request is not None
    return request


def pod_of(row: Row) -> Pod:
    return msgspec.json.decode(request_of(row).object, type=Pod)


def vpa_of(row: Row) -> VerticalPodAutoscaler | None:
    """Return the VPA that controls the pod. The pod's direct owner is the topmost controller."""
    meta = pod_of(row).metadata
    found = controlling(meta, controller_of(meta), candidates(row))
    return None if found is None else found.vpa


def candidates(row: Row) -> Iterator[SelectedVpa]:
    for raw in row.input["vpas"]:
        vpa = msgspec.convert(raw["object"], VerticalPodAutoscaler)
        if raw["target_selector"] is not None and can_control_pods(vpa):
            selector = msgspec.convert(raw["target_selector"], LabelSelector)
            yield SelectedVpa(vpa, from_label_selector(selector))


def recommended(row: Row) -> set[str]:
    """Return the containers for which the controlling VPA has a recommendation."""
    vpa = vpa_of(row)
    if vpa is None or vpa.status.recommendation is None:
        return set()
    entries = vpa.status.recommendation.container_recommendations or ()
    return {entry.container_name for entry in entries}


def stale(row: Row) -> set[str]:
    """Return the recommended containers that have mode Off."""
    vpa = vpa_of(row)
    return {name for name in recommended(row) if is_off(container_policy(vpa, name))}


def by_container(row: Row, patch: list[dict[str, Any]] | None) -> dict[str, list[Any]]:
    """Return the operations on resources, by container name."""
    found: dict[str, list[Any]] = {}
    containers = row.input["review"]["request"]["object"]["spec"]["containers"]
    for operation in patch or ():
        _, area, kind, *rest = operation["path"].split("/")
        if (area, kind) == ("spec", "containers"):
            found.setdefault(containers[int(rest[0])]["name"], []).append(operation)
    return found


def has_pod_limits(row: Row) -> bool:
    return any(
        item["type"] == "Pod" for spec in row.input["limit_ranges"] for item in spec["limits"]
    )


# Rows in which one of our rules applies. test_fixed_point.py tests its results. The tests here
# check that it applies in no other row, and that a second admission doesn't change these pods.
OURS = {
    "A18": "r00500 r00548 r00555 r00638 r00650 r00660 r00664 r00807 r00861 r00863 r00876 r00903 "
    "r00930 r00993 r00997 r00999 r01029 r01067 r01073 r01074 r01114 r01137 r01141 r01149 r01164 "
    "r01211 r01225 r01237 r01248 r01266 r01311 r01486",
    "A20": "r01005 r01136",
    "A28": "r00935 r01028 r01092 r01155",
    "A30": "r00911 r01016 r01020 r01064 r01153",
}
# Rows in which the LimitRanger didn't run. In the first one a default limit is below the request,
# so the patched pod has a limit below its request and would be refused. In the other one only the
# patch adds a default limit, which changes the sum of limits.
UNSETTLED = ("admission_pods-podlimit-r00997", "admission_pods-podlimit-r00911")
SETTLED = {number: rule for rule, numbers in OURS.items() for number in numbers.split()}


def rule_of(row: Row) -> str:
    """Return our rule that applies in a row without a departure, or an empty string."""
    return "" if row.departure else SETTLED.get(row.id.rpartition("-")[2], "")


def written(row: Row, patch: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the resources of the containers after a patch."""
    patched = jsonpatch.apply_patch(row.input["review"]["request"]["object"], patch or [])
    return {each["name"]: each.get("resources") for each in patched["spec"]["containers"]}


def patched_twice(row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the patched resources after a first and after a second admission of the row's pod."""
    _, patch = answer(row)
    request = row.input["review"]["request"]
    pod = jsonpatch.apply_patch(request["object"], patch or [])
    review = {**row.input["review"], "request": {**request, "object": pod}}
    again = replace(row, input={**row.input, "review": review})
    return written(row, patch), written(again, answer(again)[1])


def test_pods_to_which_our_rules_apply_are_stable_after_one_patch() -> None:
    """A18, A20, A28 and A30: a second admission doesn't change the pod."""
    differences = Differences()
    for row in rows("admission_pods"):
        rule = rule_of(row)
        if not rule:
            continue
        response, patch = answer(row)
        once, twice = patched_twice(row)
        differences.check(row.id, "allowed", response["allowed"], True)
        differences.check(row.id, f"{rule} differs", patch != row.expected["patch"], True)
        if row.id not in UNSETTLED:
            differences.check(row.id, f"{rule} settles", twice, once)
    differences.none_in(100)


def test_pods_are_patched_as_the_reference_does() -> None:
    differences = Differences()
    for row in rows("admission_pods"):
        if row.departure or stale(row) or rule_of(row):
            continue
        response, patch = answer(row)
        differences.check(row.id, "response", response, row.expected["response"])
        differences.check(row.id, "patch", patch, row.expected["patch"])
    differences.none_in(2500)


def test_a17_a_container_of_mode_off_keeps_its_resources_and_others_are_patched() -> None:
    differences = Differences()
    for row in rows("admission_pods"):
        untouched = stale(row)
        if not untouched or row.departure or rule_of(row):
            continue
        response, patch = answer(row)
        ours, theirs = by_container(row, patch), by_container(row, row.expected["patch"])
        differences.check(row.id, "allowed", response["allowed"], True)
        for name in ours.keys() | theirs.keys():
            if name in untouched:
                values = [entry["value"] for entry in ours.get(name, ()) if entry["value"] != {}]
                differences.check(row.id, f"{name} is left alone", values, [])
            elif not has_pod_limits(row):  # these containers share the rest
                differences.check(row.id, name, ours.get(name), theirs.get(name))
    differences.none_in(200)


def test_a13_a_container_without_recommendation_keeps_its_resources() -> None:
    differences = Differences()
    for row in rows("admission_pods"):
        if row.departure != A13:
            continue
        response, patch = answer(row)
        differences.check(row.id, "allowed", response["allowed"], True)
        known = recommended(row) - stale(row)
        for name, operations in by_container(row, patch).items():
            values = [entry["value"] for entry in operations if entry["value"] != {}]
            differences.check(row.id, f"{name} is changed", bool(values), name in known)
    differences.none_in(60)
