"""Bounds on the lists and maps of an object. Each process keeps decoded objects in memory.

A list of empty objects takes fifty times its JSON in memory (X126).
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from common.api.autoscaling import MOST_POLICIES, VerticalPodAutoscaler
from common.api.core import Pod
from common.api.meta import OwnedObject
from common.kube.watch import EventType, WatchProtocol, decoder_of
from fake_api import watch_line


@dataclass(frozen=True)
class Bound:
    """A list or a map, and its maximum number of items."""

    path: str
    type: Any
    most: int
    item: Any = None  # of a list; None: a map of texts


BOUNDS = [
    *(
        Bound(f"spec.{path}", VerticalPodAutoscaler, most, item)
        for path, most, item in (
            ("resourcePolicy.containerPolicies", MOST_POLICIES, {}),
            ("resourcePolicy.containerPolicies[].minAllowed", 8, None),
            ("resourcePolicy.containerPolicies[].maxAllowed", 8, None),
            ("resourcePolicy.containerPolicies[].controlledResources", 8, "cpu"),
            ("updatePolicy.evictionRequirements", 8, {}),
            ("updatePolicy.evictionRequirements[].resources", 8, "cpu"),
            ("recommenders", 8, {}),
        )
    ),
    *(
        Bound(f"metadata.{field}", kind, 1000, item)
        for kind in (VerticalPodAutoscaler, Pod)
        for field, item in (("labels", None), ("annotations", None), ("ownerReferences", {}))
    ),
    Bound("metadata.ownerReferences", OwnedObject, 1000, {}),
]


def object_with(bound: Bound, count: int) -> dict[str, Any]:
    many: Any = (
        {f"a{number}": "1" for number in range(count)}
        if bound.item is None
        else [bound.item] * count
    )
    for step in reversed(bound.path.split(".")):
        many = {step.removesuffix("[]"): [many] if step.endswith("[]") else many}
    metadata = {"name": "web", "namespace": "shop", "resourceVersion": "7"}
    return {**many, "metadata": {**metadata, **many.get("metadata", {})}}


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: f"{bound.type.__name__} {bound.path}")
def test_a_list_or_map_above_its_bound_is_refused(bound: Bound) -> None:
    decoder = decoder_of(bound.type)
    decoder.decode(msgspec.json.encode(object_with(bound, bound.most)))
    with pytest.raises(msgspec.ValidationError, match=f"length <= {bound.most}") as raised:
        decoder.decode(msgspec.json.encode(object_with(bound, bound.most + 1)))
    assert str(raised.value).replace("[0]", "[]").endswith(f"`$.{bound.path}`")


@pytest.mark.parametrize("bound", BOUNDS[:1] + BOUNDS[7:10], ids=lambda bound: bound.path)
def test_a_watch_event_of_an_object_above_a_bound_has_only_its_name(bound: Bound) -> None:
    """The event replaces the cached object."""
    protocol = WatchProtocol(bound.type, resource_version="6")
    changed = watch_line("MODIFIED", object_with(bound, bound.most + 1))
    (event,) = protocol.feed(changed)
    assert (event.type, event.namespace, event.name) == (EventType.MODIFIED, "shop", "web")
    assert (event.object, event.resource_version) == (None, "7")
