"""Controlling VPAs and owner walks compared with the reference."""

from typing import Any

import msgspec

from common.api.autoscaling import TargetReference, VerticalPodAutoscaler, VpaSpec
from common.api.meta import LabelSelector, ObjectMeta, OwnerReference
from common.labels import from_label_selector
from common.target.controlling import SelectedVpa, controlling
from common.target.owners import (
    Absent,
    Answer,
    Controller,
    Failed,
    Found,
    OwnerError,
    Topmost,
    controller_of,
    topmost,
)
from golden_data import Differences, rows


def _selected(raw: dict[str, Any]) -> SelectedVpa:
    vpa = VerticalPodAutoscaler(
        metadata=msgspec.convert(
            {
                "name": raw["name"],
                "namespace": raw["namespace"],
                "creationTimestamp": raw["creationTimestamp"],
            },
            ObjectMeta,
        ),
        spec=VpaSpec(target_ref=msgspec.convert(raw["targetRef"], TargetReference | None)),
    )
    selector = msgspec.convert(raw["selector"], LabelSelector | None)
    return SelectedVpa(vpa, from_label_selector(selector))


def test_vpa_matching() -> None:
    differences = Differences()
    matched = 0
    for row in rows("vpa_matching"):
        meta = msgspec.convert(row.input["pod"], ObjectMeta)
        found = controlling(meta, controller_of(meta), map(_selected, row.input["vpas"]))
        got = found and f"{found.vpa.metadata.namespace}/{found.vpa.metadata.name}"
        differences.check(row.id, "controlling", got, row.expected["controlling"])
        matched += found is not None
    differences.none_in(500)
    assert matched > 20


class Objects:
    """Answers a walk from the objects of one recorded case."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._mapped = raw["mapped_kinds"]
        self._objects = {(item["kind"], item["name"]): item for item in raw["objects"]}

    def __call__(self, controller: Controller) -> Answer:
        item = self._objects.get((controller.kind, controller.name))
        group = controller.api_version.rpartition("/")[0]
        if not controller.is_well_known:
            if f"{group} {controller.kind}" not in self._mapped:
                return Failed(f'no matches for kind "{controller.kind}" in group "{group}"')
            scale = item["scale_subresource"] if item is not None else "not_found"
            if scale != "found":
                return Failed("refused") if scale == "error" else Absent()
        if item is None:
            return Absent()
        return Found(
            msgspec.convert(item.get("ownerReferences"), tuple[OwnerReference, ...] | None)
        )


def test_owner_walk() -> None:
    differences = Differences()
    for row in rows("owner_walk"):
        start = row.input["start"]
        walked = topmost(
            Controller(row.input["namespace"], start["kind"], start["name"], start["apiVersion"]),
            Objects(row.input),
        )
        error = walked.text if isinstance(walked, OwnerError) else None
        top = walked.controller if isinstance(walked, Topmost) else None
        got = top and {"apiVersion": top.api_version, "kind": top.kind, "name": top.name}
        differences.check(row.id, "error", error, row.expected["error"])
        differences.check(row.id, "topmost", got, row.expected["topmost"])
    differences.none_in(700)
