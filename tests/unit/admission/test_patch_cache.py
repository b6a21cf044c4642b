"""The cache of patches: a patch is reused while its inputs are unchanged."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from msgspec.structs import replace

from admission.patch_cache import PatchCache
from admission.pod_patch import pod_patch
from builders import recommendation, vpa
from common.api.autoscaling import ContainerRecommendation, VerticalPodAutoscaler
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


def vpa_at(
    version: int, name: str = "web", *, recommended: ContainerRecommendation | None = None
) -> VerticalPodAutoscaler:
    made = vpa(name, recommendations=(recommended or recommendation(),))
    meta = replace(made.metadata, resource_version=str(version))
    return replace(made, metadata=meta)


@dataclass(frozen=True)
class PatchInput:
    pod: Pod = field(default_factory=pod_of)
    vpa: VerticalPodAutoscaler = field(default_factory=lambda: vpa_at(1))
    limits: tuple[LimitRangeSpec, ...] = ()

    def answer(self, memory: PatchCache) -> object:
        return memory.admit(self.pod, self.vpa, self.limits)

    def computed(self) -> object:
        return pod_patch(self.pod, self.vpa, self.limits, features=GATES, most_boost=ZERO)


@pytest.fixture
def memory() -> PatchCache:
    return PatchCache(features=GATES, most_boost=ZERO)


def test_the_patch_of_the_same_inputs_is_computed_once(memory: PatchCache) -> None:
    first = PatchInput()
    again = PatchInput(pod=pod_of(), vpa=vpa_at(1))
    assert first.answer(memory) == first.computed()
    assert again.answer(memory) is first.answer(memory)


CHANGES: dict[str, Callable[[PatchInput], PatchInput]] = {
    "another request": lambda old: PatchInput(pod_of("150m"), old.vpa),
    "other annotations": lambda old: PatchInput(pod_of(annotations={}), old.vpa),
    "another VPA": lambda old: PatchInput(
        old.pod, vpa_at(2, recommended=recommendation(target={"cpu": "777m"}))
    ),
    "another LimitRange": lambda old: PatchInput(
        old.pod,
        old.vpa,
        (LimitRangeSpec(limits=(LimitRangeItem(type="Container", max={"cpu": "1"}),)),),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_inputs_are_computed_again(
    memory: PatchCache, change: Callable[[PatchInput], PatchInput]
) -> None:
    old = PatchInput()
    old.answer(memory)
    new = change(old)
    assert new.computed() != old.computed()
    assert new.answer(memory) == new.computed()
    assert old.answer(memory) == old.computed()


def test_an_error_is_raised_each_time(memory: PatchCache) -> None:
    broken = PatchInput(pod=pod_of("much"))
    for _ in range(2):
        with pytest.raises(DecodeError):
            broken.answer(memory)


def test_the_number_of_patches_is_bounded(memory: PatchCache) -> None:
    asked = PatchInput()
    for number in range(6000):
        PatchInput(pod_of(f"{number}m"), asked.vpa).answer(memory)
    assert 1000 < len(memory) < 5000
    kept = PatchInput(pod_of("5999m"), asked.vpa)
    assert kept.answer(memory) is kept.answer(memory)


def test_the_patch_of_a_large_pod_is_not_cached(memory: PatchCache) -> None:
    giant = PatchInput(pod_of(annotations={"note": "x" * 2**20}))
    assert giant.answer(memory) == giant.computed()
    assert len(memory) == 0


def test_the_vpa_is_not_kept_in_memory(memory: PatchCache) -> None:
    """A version of a VPA can have many MiB."""
    asked = PatchInput()
    before = sys.getrefcount(asked.vpa)
    asked.answer(memory)
    after = sys.getrefcount(asked.vpa)
    assert (len(memory), after) == (1, before)


def test_patches_of_a_vpa_without_a_version_are_not_cached(memory: PatchCache) -> None:
    asked = PatchInput(vpa=vpa(recommendations=(recommendation(),)))
    assert asked.answer(memory) == asked.computed()
    assert len(memory) == 0


def test_dropped_patches_are_computed_again(memory: PatchCache) -> None:
    several = [vpa_at(1, name) for name in "abc"]
    for number in range(4000):
        asked = PatchInput(pod_of(f"{number}m"), several[number % 3])
        assert asked.answer(memory) == asked.computed()
    first = PatchInput(pod_of("0m"), several[0])
    assert first.answer(memory) is first.answer(memory)


def test_long_patches_count_by_their_length(memory: PatchCache) -> None:
    long = recommendation(target={f"example.com/r{number}": "1" for number in range(5000)})
    asked = vpa_at(1, recommended=long)
    for number in range(8):
        PatchInput(pod_of(f"{number}m"), asked).answer(memory)
    assert 1 <= len(memory) <= 5
