"""Containers that count as native sidecars and get no recommendation (X108)."""

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

from builders import container
from common.labels import from_map
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.vpa_estimates import estimate_vpas, recommended_groups
from recommender.model.aggregates import History
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.sidecars import Sidecars
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage
from recommender.sources.cached_pod import CachedPod, CachedPodWithSidecars
from recommender.sources.conversion import pod_facts, request_sources
from sidecars import pod_with_init, sidecar

NOW = instant(datetime(2026, 1, 10, tzinfo=UTC))
MINUTE = span(timedelta(minutes=1))
WEB = VpaKey("shop", "web")
HISTORY = History(
    cpu=SavedHistogram(weights={30: 10000}, total=100.0, reference=NOW),
    memory=SavedHistogram(weights={30: 10000}, total=10.0, reference=NOW),
    first_sample=NOW - 1440 * MINUTE,
    last_sample=NOW,
    samples=1440,
)


def pod(
    name: str = "web-1",
    *,
    containers: tuple[str, ...] = ("app",),
    sidecars: tuple[str, ...] = ("proxy",),
    **labels: str,
) -> PodFacts:
    return PodFacts(
        key=PodKey("shop", name),
        uid=f"uid-{name}",
        labels={"app": "web", **labels},
        active=True,
        containers=containers,
        sidecars=sidecars,
    )


REGULAR = pod("web-2", containers=("app", "proxy"), sidecars=(), version="old")


def usage_of(*pods: PodFacts, scaled: bool = False) -> Usage:
    usage = Usage(sidecars=Sidecars(scaled=scaled))
    usage.put_autoscaler(WEB, from_map({"app": "web"}), ())
    for each in pods:
        usage.put_pod(each, NOW)
    usage.load_history(WEB, "proxy", HISTORY)
    return usage


def names(usage: Usage) -> list[str]:
    return [group.container for group in recommended_groups(usage, WEB, NOW)]


@pytest.mark.parametrize(
    ("pods", "marked", "want"),
    [
        pytest.param([pod()], False, ["app"], id="a sidecar in a pod"),
        pytest.param([pod(), pod("web-3")], False, ["app"], id="a sidecar in two pods"),
        pytest.param(
            [pod(sidecars=())],
            False,
            ["app", "proxy"],
            id="a sidecar in neither pods nor checkpoint",
        ),
        pytest.param([pod(sidecars=())], True, ["app"], id="a sidecar in a checkpoint"),
        pytest.param([], True, [], id="a sidecar in a checkpoint, no pods"),
        pytest.param([], False, ["proxy"], id="not a sidecar in a checkpoint, no pods"),
        pytest.param(
            [pod(), REGULAR], False, ["app", "proxy"], id="a regular container in another pod"
        ),
        pytest.param(
            [REGULAR],
            True,
            ["app", "proxy"],
            id="a regular container in a pod, a sidecar in the checkpoint",
        ),
    ],
)
def test_with_the_gate_off_sidecars_get_no_recommendation(
    pods: list[PodFacts], want: list[str], *, marked: bool
) -> None:
    usage = usage_of(*pods)
    if marked:
        usage.sidecars.mark(WEB, "proxy")
    assert names(usage) == want


def test_with_the_gate_on_sidecars_get_a_recommendation() -> None:
    usage = usage_of(pod(containers=("app", "proxy")), scaled=True)
    assert names(usage) == ["app", "proxy"]
    assert usage.sidecars.of(WEB, usage.matching) == {"proxy"}
    assert usage.sidecars.left_out(WEB, usage.matching) == set()


@pytest.mark.parametrize(
    ("pods", "scaled", "marked", "want"),
    [
        pytest.param([pod()], True, False, {"proxy"}, id="gate on"),
        pytest.param([pod()], False, False, set(), id="gate off, and not marked"),
        pytest.param([pod()], False, True, {"proxy"}, id="gate off, and marked"),
        pytest.param([REGULAR], False, True, set(), id="now a regular container"),
        pytest.param([REGULAR], True, True, set(), id="now a regular container, gate on"),
    ],
)
def test_which_checkpoints_are_marked(
    pods: list[PodFacts], want: set[str], *, scaled: bool, marked: bool
) -> None:
    usage = usage_of(*pods, scaled=scaled)
    if marked:
        usage.sidecars.mark(WEB, "proxy")
    assert usage.sidecars.to_mark(WEB, usage.matching) == want


def test_sidecars_do_not_share_the_minimum() -> None:
    (app,) = estimate_vpas(usage_of(pod()), [WEB], EstimationSettings(), NOW).of(WEB).containers
    assert app.target == {"cpu": 25, "memory": 250 << 20}


def test_usage_of_a_sidecar_from_prometheus_is_ignored() -> None:
    usage = usage_of(pod())
    row = usage.aggregate("shop", {"app": "web"}, "proxy", NOW)
    usage.aggregates.add_cpu(np.array([row]), np.array([NOW]), np.array([4000]))
    assert names(usage) == ["app"]


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod(), pod("web-2", sidecars=())], ["app"], id="pods with and without it"),
        pytest.param(
            [pod(version="new"), pod("web-2", sidecars=())], ["app"], id="pods with other labels"
        ),
        pytest.param(
            [pod(), pod("web-2", containers=("app", "proxy"), sidecars=())],
            ["app", "proxy"],
            id="a pod has it as a regular container",
        ),
    ],
)
def test_a_pod_without_the_container_does_not_make_it_a_regular_container(
    pods: list[PodFacts], want: list[str]
) -> None:
    usage = usage_of(*pods)
    for labels in ({"app": "web"}, {"app": "web", "version": "new"}):
        row = usage.aggregate("shop", labels, "proxy", NOW)  # as Prometheus reports it
        usage.aggregates.add_cpu(np.array([row]), np.array([NOW]), np.array([4000]))
    assert names(usage) == want
    usage.sidecars.mark(WEB, "proxy")
    assert names(usage) == want


def test_a_regular_container_counts_while_a_pod_has_it() -> None:
    usage = usage_of(pod(), REGULAR)
    assert names(usage) == ["app", "proxy"]
    usage.put_pod(pod("web-2", containers=("app", "proxy"), sidecars=(), track="new"), NOW)
    assert names(usage) == ["app", "proxy"]
    usage.put_pod(pod("web-2", sidecars=(), track="new"), NOW)
    assert names(usage) == ["app"]


def test_the_existing_pods_decide() -> None:
    usage = usage_of(pod(), REGULAR)
    usage.remove_pod(REGULAR.key)
    assert names(usage) == ["app"]
    usage.remove_pod(PodKey("shop", "web-1"))
    assert names(usage) == ["app", "proxy"]


def test_a_pod_decides_under_its_new_labels() -> None:
    usage = usage_of(pod())
    usage.put_pod(pod(track="new"), NOW)
    assert names(usage) == ["app"]
    usage.put_pod(pod(app="another"), NOW)
    assert names(usage) == ["app", "proxy"]


def test_the_marks_of_a_vpa_are_forgotten() -> None:
    usage = usage_of()
    usage.sidecars.mark(WEB, "proxy")
    usage.sidecars.forget(WEB)
    assert names(usage) == ["proxy"]


# Cached fields of pods

PLAIN = container("migrate", requests={"memory": "1Gi"})
PROXY = sidecar(requests={"memory": "100Mi"})
STATUSES = [
    {"name": each, "restartCount": 1, "resources": {"requests": {"memory": "100Mi"}}}
    for each in ("migrate", "proxy")
]


def decoded(kind: type[CachedPod]) -> CachedPod:
    body = msgspec.to_builtins(pod_with_init(PLAIN, PROXY))
    body["status"]["initContainerStatuses"] = STATUSES
    return msgspec.convert(body, type=kind, strict=False)


def test_with_the_gate_sidecars_are_cached() -> None:
    found = decoded(CachedPodWithSidecars)
    assert found.spec.init_containers == (PROXY,)
    assert [each.name for each in found.status.init_container_statuses or ()] == ["proxy"]
    assert pod_facts(found).containers == ("app", "proxy")
    assert pod_facts(found).sidecars == ("proxy",)
    assert request_sources(found) == {
        "Pod.Spec.Containers": 1,
        "Pod.Status.InitContainerStatuses": 1,
    }


def test_without_the_gate_only_names_of_sidecars_are_cached() -> None:
    found = decoded(CachedPod)
    (kept,) = found.spec.init_containers or ()
    assert (kept.name, kept.resources) == ("proxy", None)
    assert found.status.init_container_statuses is None
    assert pod_facts(found).containers == ("app",)
    assert pod_facts(found).sidecars == ("proxy",)
    assert request_sources(found) == {"Pod.Spec.Containers": 1}
