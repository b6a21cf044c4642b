"""The flags of the recommender, as ``kubectl vpa`` reads them from its pod."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

import builders
from common.api.autoscaling import RecommenderSelector
from fake_api import FakeApi, Reply, listing, named, status
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.recommender_flags import SeenFlags, recommender_flags

PODS = "GET /api/v1/pods"
UNSEEN = "the flags of the recommender can't be seen, so their defaults are assumed"
OTHER = "--target-cpu-percentile=0.5"


def pod(*arguments: str, name: str = "it", namespace: str = "kube-system", **more: Any) -> Any:
    labels = {"app": "vpa-recommender"}
    container = {"name": "it", "args": arguments, **more}
    made = named(name, namespace=namespace, spec={"containers": [container]})
    made["metadata"]["labels"] = labels
    return made


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


async def seen(
    api: FakeApi, answer: Reply, recommenders: Sequence[str] = ()
) -> tuple[SeenFlags, list[str]]:
    """Return the flags for a VPA that names these recommenders, and the notes."""
    api.on(PODS, answer)
    named_ones = tuple(RecommenderSelector(name=each) for each in recommenders) or None
    vpa = builders.vpa()
    vpa = replace(vpa, spec=replace(vpa.spec, recommenders=named_ones))
    async with api.client() as client:
        reader = Reader(client, "shop")
        return await recommender_flags(Components(reader), reader, [vpa]), reader.notes


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    pods: Sequence[Any]
    recommenders: Sequence[str] = ()
    want: str  # the pod
    percentile: float = 0.5


CASES = [
    Case(id="arguments", pods=[pod(OTHER)], want="kube-system/it"),
    Case(id="none", pods=[pod()], want="kube-system/it", percentile=0.9),
    Case(
        id="the program comes first",
        pods=[pod(OTHER, command=["python", "-m", "recommender"])],
        want="kube-system/it",
    ),
    Case(
        id="flags of the reference without effect here",
        pods=[pod("--v=4", "--kube-api-qps=50", OTHER)],
        want="kube-system/it",
    ),
    Case(
        id="the recommender that the VPA names",
        pods=[pod(name="a"), pod("--recommender-name=own", OTHER, name="b")],
        recommenders=["own"],
        want="kube-system/b",
    ),
    Case(
        id="the default one",
        pods=[pod("--recommender-name=own", name="a"), pod(OTHER, name="b")],
        want="kube-system/b",
    ),
    Case(
        id="not a pod that a tenant labelled",
        pods=[pod("--target-cpu-percentile=1", namespace="default"), pod(OTHER)],
        want="kube-system/it",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_flags_are_those_of_the_pod(api: FakeApi, case: Case) -> None:
    found, notes = await seen(api, listing(*case.pods), case.recommenders)
    assert (found.pod, found.settings.target_cpu_percentile) == (case.want, case.percentile)
    assert notes == []


UNSEEN_CASES = [
    pytest.param(listing(), [], id="no pod"),
    pytest.param(
        status(403, "Forbidden"),
        ["what the components know: you may not list pods in all namespaces"],
        id="no permission",
    ),
    pytest.param(
        listing(pod("--unknown=secret")),
        ["flags of pod kube-system/it: unknown flag: --unknown"],
        id="a flag that we don't know",
    ),
    pytest.param(listing(pod("--recommender-name=own")), [], id="another recommender"),
]


@pytest.mark.parametrize(("answer", "notes"), UNSEEN_CASES)
async def test_otherwise_the_defaults_are_assumed(
    api: FakeApi, answer: Reply, notes: list[str]
) -> None:
    found, noted = await seen(api, answer)
    assert (found.pod, found.settings.target_cpu_percentile) == ("", 0.9)
    assert noted == [*notes, UNSEEN]
