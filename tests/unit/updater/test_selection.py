"""The VPAs and pods of a snapshot: those of a scope, and pods that aren't being deleted."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from builders import CREATED, vpa
from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.cache import Snapshot
from updater.snapshot.live_pod import LivePod
from updater.snapshot.selection import EVERYTHING, Scope, divide_pods
from updater_harness import live_pod

SHOP = vpa()
OLDER = vpa("older", created=CREATED.replace(year=2025))
OTHER = vpa("web", namespace="b")


@pytest.mark.parametrize(
    ("scope", "reached", "namespaces"),
    [
        pytest.param(EVERYTHING, [SHOP, OLDER, OTHER], None, id="all, with the pods without a VPA"),
        pytest.param(
            Scope("default", "web"),
            [SHOP, OLDER],
            {"default"},
            id="one VPA: all of its namespace, because an older one may have the same target",
        ),
        pytest.param(
            Scope("", "web"), [SHOP, OLDER, OTHER], {"default", "b"}, id="a name in all namespaces"
        ),
        pytest.param(Scope("b"), [OTHER], {"b"}, id="a namespace"),
        pytest.param(Scope("elsewhere"), [], set(), id="a namespace without VPAs"),
    ],
)
def test_reach(
    scope: Scope, reached: Sequence[VerticalPodAutoscaler], namespaces: set[str] | None
) -> None:
    found = scope.reach([SHOP, OLDER, OTHER])
    assert found == tuple(reached)
    assert scope.namespaces(found) == namespaces


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (EVERYTHING, [SHOP, OLDER, OTHER]),
        (Scope("default", "web"), [SHOP]),
        (Scope("", "web"), [SHOP, OTHER]),
        (Scope("default"), [SHOP, OLDER]),
    ],
    ids=repr,
)
def test_covered_vpas(scope: Scope, covered: Sequence[VerticalPodAutoscaler]) -> None:
    assert [each for each in (SHOP, OLDER, OTHER) if scope.covers(each)] == covered


def located(name: str, namespace: str, *, deleted: bool = False) -> LivePod:
    pod = live_pod(name)
    deleted_at = datetime(2026, 3, 1, tzinfo=UTC) if deleted else None
    meta = msgspec.structs.replace(pod.metadata, namespace=namespace, deletion_timestamp=deleted_at)
    return msgspec.structs.replace(pod, metadata=meta)


@pytest.mark.parametrize(
    ("namespaces", "live", "terminating"),
    [
        pytest.param(None, ["one", "three"], {"uid-two", "uid-four"}, id="all namespaces"),
        pytest.param({"a"}, ["one"], {"uid-two"}, id="one namespace"),
        pytest.param({"c"}, [], set(), id="a namespace without pods"),
    ],
)
async def test_terminating_pods_are_separated(
    namespaces: set[str] | None, live: Sequence[str], terminating: set[str]
) -> None:
    pods = Snapshot(
        {
            "a": {"one": located("one", "a"), "two": located("two", "a", deleted=True)},
            "b": {"three": located("three", "b"), "four": located("four", "b", deleted=True)},
        }
    )
    found, ending = await divide_pods(pods, namespaces)
    assert [pod.metadata.name for pod in found] == list(live)
    assert ending == terminating
