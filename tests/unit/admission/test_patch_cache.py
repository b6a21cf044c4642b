"""Patches are remembered for as long as nothing changed that they were computed from."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from admission.patch_cache import PatchCache
from admission.pod_patch import pod_patch
from builders import recommendation, vpa
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeItem, LimitRangeSpec, Pod
from common.errors import DecodeError
from common.features import FeatureGates
from common.quantity import ZERO

GATES = FeatureGates.parse("")


def pod_of(cpu: str = "100m", **metadata: object) -> Pod:
    container = {"name": "app", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "2"}}}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"containers": [container]}}, Pod, strict=True
    )


@dataclass(frozen=True)
class Question:
    pod: Pod = field(default_factory=pod_of)
    vpa: VerticalPodAutoscaler = field(
        default_factory=lambda: vpa(recommendations=(recommendation(),))
    )
    limits: tuple[LimitRangeSpec, ...] = ()

    def answer(self, memory: PatchCache) -> object:
        return memory.admit(self.pod, self.vpa, self.limits)

    def computed(self) -> object:
        return pod_patch(self.pod, self.vpa, self.limits, features=GATES, most_boost=ZERO)


@pytest.fixture
def memory() -> PatchCache:
    return PatchCache(features=GATES, most_boost=ZERO)


def test_the_same_question_is_computed_once(memory: PatchCache) -> None:
    first = Question()
    again = Question(pod=pod_of(), vpa=first.vpa)
    assert first.answer(memory) == first.computed()
    assert again.answer(memory) is first.answer(memory)


CHANGES: dict[str, Callable[[Question], Question]] = {
    "the pod asks for more": lambda old: Question(pod_of("150m"), old.vpa),
    "the pod has annotations": lambda old: Question(pod_of(annotations={}), old.vpa),
    "the VPA was written": lambda old: Question(
        old.pod, vpa(recommendations=(recommendation(target={"cpu": "777m"}),))
    ),
    "a LimitRange came": lambda old: Question(
        old.pod,
        old.vpa,
        (LimitRangeSpec(limits=(LimitRangeItem(type="Container", max={"cpu": "1"}),)),),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_is_computed_anew(
    memory: PatchCache, change: Callable[[Question], Question]
) -> None:
    old = Question()
    old.answer(memory)
    new = change(old)
    assert new.computed() != old.computed()
    assert new.answer(memory) == new.computed()
    assert old.answer(memory) == old.computed()


def test_an_error_stays_one(memory: PatchCache) -> None:
    broken = Question(pod=pod_of("much"))
    for _ in range(2):
        with pytest.raises(DecodeError):
            broken.answer(memory)


def test_memory_is_bounded(memory: PatchCache) -> None:
    asked = Question()
    for number in range(20_000):
        Question(pod_of(f"{number}m"), asked.vpa).answer(memory)
    assert 1000 < len(memory) < 5000
    kept = Question(pod_of("19999m"), asked.vpa)
    assert kept.answer(memory) is kept.answer(memory)


def test_a_pod_of_giant_shape_is_not_kept(memory: PatchCache) -> None:
    giant = Question(pod_of(annotations={"note": "x" * 2**20}))
    assert giant.answer(memory) == giant.computed()
    assert len(memory) == 0


def test_of_a_vpa_that_is_written_again_and_again_only_the_last_is_kept(
    memory: PatchCache,
) -> None:
    """Each may be of many MiB, and hold as much memory for as long as a single pod's patch."""
    versions = [vpa(recommendations=(recommendation(),)) for _ in range(20)]

    def references() -> list[int]:
        return [sys.getrefcount(versions[number]) for number in range(20)]

    before = references()
    for number in range(20):
        for cpu in ("1", f"{number}m"):
            Question(pod_of(cpu), versions[number]).answer(memory)
    held = [now - then for now, then in zip(references(), before, strict=True)]
    assert held == [0] * 19 + [1]
    assert len(memory) == 2


def test_what_is_forgotten_can_be_asked_again(memory: PatchCache) -> None:
    several = [vpa(name, recommendations=(recommendation(),)) for name in "abc"]
    for number in range(4000):
        asked = Question(pod_of(f"{number}m"), several[number % 3])
        assert asked.answer(memory) == asked.computed()
    first = Question(pod_of("0m"), several[0])
    assert first.answer(memory) is first.answer(memory)


def test_long_patches_count_by_their_length(memory: PatchCache) -> None:
    long = recommendation(target={f"example.com/r{number}": "1" for number in range(5000)})
    asked = vpa(recommendations=(long,))
    for number in range(8):
        Question(pod_of(f"{number}m"), asked).answer(memory)
    assert 1 <= len(memory) <= 5
