"""The cache of results by the identity of their inputs."""

import gc

import pytest

from common.identity_cache import IdentityCache


class Counted:
    """Computes the length of lists, and counts the computations."""

    def __init__(self, size: int = 4) -> None:
        self.cache = IdentityCache[int](size)
        self.times = 0

    def length(self, *lists: list[int]) -> int:
        def compute() -> int:
            self.times += 1
            return sum(map(len, lists))

        return self.cache.get(lists, compute)


def test_the_result_of_the_same_objects_is_computed_once() -> None:
    counted, one, two = Counted(), [1], [1, 2]
    assert [counted.length(one, two) for _ in range(3)] == [3, 3, 3]
    assert counted.times == 1


def test_equal_objects_and_another_order_are_other_keys() -> None:
    counted, one, equal = Counted(), [1], [1]
    assert [counted.length(one), counted.length(equal)] == [1, 1]
    assert [counted.length(one, equal), counted.length(equal, one)] == [2, 2]
    assert counted.times == 4


def test_the_least_recently_used_result_is_dropped_first() -> None:
    counted = Counted(size=2)
    first, second, third = [1], [2], [3]
    for each in (first, second, first, third, first):
        counted.length(each)
    assert (counted.times, len(counted.cache)) == (3, 2)
    counted.length(second)
    assert counted.times == 4


def test_a_cached_result_keeps_its_objects_alive() -> None:
    counted = Counted(size=100)
    for number in range(1000):
        assert counted.length([0] * number) == number
        gc.collect(0)
    assert len(counted.cache) == 100


def test_an_error_is_not_cached() -> None:
    cache, key = IdentityCache[int](4), (object(),)

    def fail() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        cache.get(key, fail)
    assert cache.get(key, lambda: 7) == 7
