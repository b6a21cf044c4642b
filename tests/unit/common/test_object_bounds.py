"""How much of one object is taken in: every process keeps it, decoded, as long as it exists.

A list of empty objects takes fifty times its JSON in memory (X126).
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from common.api.autoscaling import MOST_POLICIES, VerticalPodAutoscaler
from common.api.core import Pod
from common.api.meta import OwnedObject, PartialObject
from common.kube.watch import EventType, WatchProtocol, decoder_of
from fake_api import watch_line


@dataclass(frozen=True)
class Bound:
    """A list or a map of which there may be so many."""

    path: str
    type: Any
    most: int
    item: Any = None  # of a list; a map has texts


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
        for kind in (VerticalPodAutoscaler, Pod, PartialObject)
        for field, item in (("labels", None), ("annotations", None), ("ownerReferences", {}))
    ),
    Bound("metadata.ownerReferences", OwnedObject, 1000, {}),
]


def with_so_many(bound: Bound, count: int) -> dict[str, Any]:
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
def test_an_object_has_so_many_and_no_more(bound: Bound) -> None:
    decoder = decoder_of(bound.type)
    decoder.decode(msgspec.json.encode(with_so_many(bound, bound.most)))
    with pytest.raises(msgspec.ValidationError, match=f"length <= {bound.most}") as raised:
        decoder.decode(msgspec.json.encode(with_so_many(bound, bound.most + 1)))
    assert str(raised.value).replace("[0]", "[]").endswith(f"`$.{bound.path}`")


@pytest.mark.parametrize("bound", BOUNDS[:1] + BOUNDS[7:10], ids=lambda bound: bound.path)
def test_of_an_object_with_more_a_watch_tells_the_name(bound: Bound) -> None:
    """It takes the place of what is known of it, and counts as skipped."""
    protocol = WatchProtocol(bound.type, resource_version="6")
    changed = watch_line("MODIFIED", with_so_many(bound, bound.most + 1))
    (event,) = protocol.feed(changed)
    assert (event.type, event.namespace, event.name) == (EventType.MODIFIED, "shop", "web")
    assert (event.object, event.resource_version, protocol.skipped) == (None, "7", 1)
