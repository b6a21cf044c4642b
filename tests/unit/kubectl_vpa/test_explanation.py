"""The sentences of ``kubectl vpa why``, and the names that it accepts."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kubectl_vpa.cluster.subject import parse
from kubectl_vpa.judge.explanation import explain, without_vpa
from kubectl_vpa.judge.vpa_status import STATES
from kubectl_vpa.results.status import ResourceStatus, State, StatusReason, VpaResult
from scripted_components import TIME, known_vpa

STATUS = VpaResult(
    namespace="shop",
    name="web",
    workload_kind="Deployment",
    workload_name="web",
    mode="Recreate",
    state=State.BLOCKED,
    reason=StatusReason.BELOW_MIN_REPLICAS,
    message="1 running, minReplicas is 2",
    cpu=ResourceStatus(request="500m", target="50m", drift=-0.9),
    memory=ResourceStatus(target="250Mi"),
    drift=-0.9,
    pods=2,
    pods_due=1,
)


@pytest.mark.parametrize("reason", StatusReason)
def test_every_reason_is_explained_in_sentences(reason: StatusReason) -> None:
    found = explain("VPA shop/web", replace(STATUS, reason=reason, message="the words"))
    assert found.because[0].isupper()
    assert found.because.endswith(".")
    assert "{" not in found.because + found.remedy
    assert ".." not in found.because


@pytest.mark.parametrize("reason", [each for each, state in STATES.items() if state != State.OK])
def test_every_state_but_ok_has_a_remedy_and_a_command(reason: StatusReason) -> None:
    found = explain("VPA shop/web", replace(STATUS, reason=reason))
    assert found.remedy
    assert found.command.startswith("kubectl ")


def test_the_recommendation_is_compared_with_the_requests() -> None:
    assert explain("", STATUS).wanted == (
        "VPA web (mode Recreate) recommends cpu 50m instead of 500m and memory 250Mi (no request "
        "is set) for each pod of Deployment web. 1 of 2 pods differ."
    )


def test_equal_amounts_are_named_once() -> None:
    same = ResourceStatus(request="50m", target="50m", drift=0.0)
    status = replace(STATUS, cpu=same, memory=ResourceStatus(), pods_due=0)
    assert explain("", status).wanted == (
        "VPA web (mode Recreate) recommends cpu 50m, as requested, for each pod of Deployment web."
    )


def test_there_may_be_no_recommendation() -> None:
    status = replace(STATUS, cpu=ResourceStatus(), memory=ResourceStatus())
    wanted = "VPA web (mode Recreate) has no recommendation for Deployment web."
    assert explain("", status).wanted == wanted


def test_times_are_named() -> None:
    time = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    found = explain("", replace(STATUS, since=time, until=time))
    assert found.because.endswith(
        "This holds since 2026-01-02 03:04 UTC. It changes at 2026-01-02 03:04 UTC at the earliest."
    )


def test_the_command_for_a_workload_has_its_resource() -> None:
    found = explain("", replace(STATUS, reason=StatusReason.NEXT_POD))
    assert found.command == "kubectl -n shop rollout restart deployment/web"
    found = explain("", STATUS)
    assert found.command.endswith("""-p '{"spec":{"updatePolicy":{"minReplicas":1}}}'""")


def test_something_without_vpa_has_a_remedy() -> None:
    found = without_vpa("Pod shop/x", "No VPA targets it.")
    assert (found.status, found.because) == (None, "No VPA targets it.")
    assert found.remedy


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("web", ("", "web")),
        ("vpa/web", ("VerticalPodAutoscaler", "web")),
        ("verticalpodautoscalers.autoscaling.k8s.io/web", ("VerticalPodAutoscaler", "web")),
        ("po/web-1", ("Pod", "web-1")),
        ("pods/web-1", ("Pod", "web-1")),
        ("deploy/web", ("Deployment", "web")),
        ("Deployment/web", ("Deployment", "web")),
        ("deployments.apps/web", ("Deployment", "web")),
        ("sts/db", ("StatefulSet", "db")),
        ("Rollout/web", ("Rollout", "web")),
    ],
)
def test_a_name_may_have_a_kind(text: str, want: tuple[str, str]) -> None:
    assert parse(text) == want


def test_the_updater_says_what_would_unblock_a_pod() -> None:
    held = replace(STATUS, reason=StatusReason.HELD_UP, message="2 pods: a quota refuses it")
    found = explain("", replace(held, unblock="A larger ResourceQuota."))
    assert found.because == (
        "The updater changes nothing at present. It reports: 2 pods: a quota refuses it."
    )
    assert found.remedy == "To unblock it: A larger ResourceQuota."
    found = explain("", replace(held, unblock="Nothing: the next pass tries again."))
    assert found.remedy == "Nothing has to be done: the next pass tries again."


@pytest.mark.parametrize(
    ("confidence", "words"),
    [(0.99, "confidence 0.99 (below 1, so the bounds are wide)."), (1.0, "confidence 1.00.")],
)
def test_the_history_of_the_target(confidence: float, words: str) -> None:
    half = known_vpa("web")
    container = replace(half.containers[0], confidence={"cpu": 2.0, "memory": confidence})
    new = replace(container, name="new", first_sample=None)
    known = replace(half, containers=(container, new), checkpointed_at=None)
    assert explain("", STATUS, summary=known).history == (
        "The target of container app rests on 720 CPU samples from 2026-01-01 00:00 to "
        f"2026-01-01 12:00 UTC, {words} The recommender has no samples of container new. "
        "No checkpoint was saved yet."
    )
    saved = replace(known, containers=(), checkpointed_at=TIME)
    found = explain("", STATUS, summary=saved).history
    assert found == "The oldest checkpoint is of 2026-01-01 00:00 UTC."
    assert explain("", STATUS).history == ""
