"""State between passes, and when it is dropped."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from common.api.core import Pod
from common.api.meta import ObjectMeta
from updater.state import PodMemory, SentResize, UpdaterState

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
SENT = SentResize(at=NOW, generation=3, resource_version="7", restarts=False)


def cached(*, generation: int = 0, version: str = "7") -> Pod:
    meta = ObjectMeta(name="web-0", generation=generation, resource_version=version)
    return Pod(metadata=meta)


CACHED_PODS = {
    "nothing sent": (PodMemory(), cached(), True),
    "evicted": (PodMemory(evicted=True), cached(version="8"), False),
    "older generation": (PodMemory(sent=SENT), cached(generation=2, version="8"), False),
    "the generation after the resize": (PodMemory(sent=SENT), cached(generation=3), True),
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


@pytest.mark.parametrize(("memory", "given", "want"), CACHED_PODS.values(), ids=CACHED_PODS)
def test_a_pod_is_evaluated_again_once_the_cache_contains_the_last_action(
    memory: PodMemory, given: Pod, *, want: bool
) -> None:
    assert memory.shows(given) is want


def test_the_memory_of_a_pod_is_dropped_with_the_pod() -> None:
    before = UpdaterState({"a": PodMemory(evicted=True), "b": PodMemory(sent=SENT)})
    after = before.followed_by({"c": PodMemory(sent=SENT)}, living={"b", "c"})
    assert set(after.pods) == {"b", "c"}
    assert before.of("a").evicted
    assert after.of("a") == PodMemory()
