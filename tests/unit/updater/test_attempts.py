"""What is remembered between cycles, and for how long."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from builders import pod
from common.api.core import Pod
from common.api.meta import ObjectMeta
from updater.attempts import Attempts, PodMemory, SentResize
from updater.candidate import last_resize
from updater.live_pod import LivePod, LivePodMeta, ManagedFieldsEntry, resized_at

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
SENT = SentResize(at=NOW, generation=3, resource_version="7", restarts=False)


def cached(*, generation: int = 0, version: str = "7") -> Pod:
    meta = ObjectMeta(name="web-0", generation=generation, resource_version=version)
    return Pod(metadata=meta)


SHOWN = {
    "nothing sent": (PodMemory(), cached(), True),
    "evicted": (PodMemory(evicted=True), cached(version="8"), False),
    "older generation": (PodMemory(sent=SENT), cached(generation=2, version="8"), False),
    "our generation": (PodMemory(sent=SENT), cached(generation=3), True),
    "a later generation": (PodMemory(sent=SENT), cached(generation=4), True),
    "no generations, same version": (
        PodMemory(sent=replace(SENT, generation=0)),
        cached(),
        False,
    ),
    "no generations, another version": (
        PodMemory(sent=replace(SENT, generation=0)),
        cached(version="8"),
        True,
    ),
}


@pytest.mark.parametrize(("memory", "given", "want"), SHOWN.values(), ids=SHOWN)
def test_a_pod_is_judged_again_once_the_cache_shows_what_we_did(
    memory: PodMemory, given: Pod, *, want: bool
) -> None:
    assert memory.shows(given) is want


def test_what_is_remembered_ends_with_the_pod() -> None:
    before = Attempts({"a": PodMemory(evicted=True), "b": PodMemory(sent=SENT)})
    after = before.followed_by({"c": PodMemory(sent=SENT)}, living={"b", "c"})
    assert set(after.pods) == {"b", "c"}
    assert before.of("a").evicted
    assert after.of("a") == PodMemory()


def managed(*entries: ManagedFieldsEntry) -> LivePod:
    ordinary = pod()
    return LivePod(
        metadata=LivePodMeta(name="web-0", managed_fields=entries),
        spec=ordinary.spec,
        status=ordinary.status,
    )


def test_the_last_resize_is_read_from_the_managed_fields() -> None:
    """D18: after a restart of ours nothing else tells."""
    earlier = datetime(2026, 1, 1, tzinfo=UTC)
    ours = ManagedFieldsEntry(manager="vpa-updater", subresource="resize", time=NOW)
    old = ManagedFieldsEntry(manager="vpa-updater", subresource="resize", time=earlier)
    theirs = ManagedFieldsEntry(manager="kubectl-edit", subresource="resize", time=NOW)
    mark = ManagedFieldsEntry(manager="vpa-updater", time=NOW)
    assert resized_at(managed(theirs, mark)) is None
    assert resized_at(managed(old, ours, theirs)) == NOW
    assert resized_at(managed()) is None


def test_a_withdrawal_is_no_resize_that_starts_the_age_of_a_pod() -> None:
    """X101: what is withdrawn to be sent again must not wait for the lifetime threshold."""
    ours = ManagedFieldsEntry(manager="vpa-updater", subresource="resize", time=NOW)
    assert last_resize(managed(ours), PodMemory(sent=SENT)) == NOW
    assert last_resize(managed(ours), PodMemory(sent=replace(SENT, withdraws=True))) is None
