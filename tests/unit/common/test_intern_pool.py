"""Equal parts of objects are stored once, in a pool of bounded size."""

from builders import container
from common.api.core import Container, ResourceRequirements
from common.api.intern_pool import InternPool


def test_equal_values_are_shared() -> None:
    pool = InternPool[Container](10)
    first = pool.shared(container(requests={"cpu": "1"}))
    assert pool.shared(container(requests={"cpu": "1"})) is first
    assert pool.shared(container(requests={"cpu": "2"})) is not first
    assert pool.shared(container("other", requests={"cpu": "1"})) is not first


def test_used_values_stay_and_unused_ones_are_dropped() -> None:
    pool = InternPool[Container](2)
    used = pool.shared(container("used"))
    unused = pool.shared(container("unused"))
    for number in range(10):
        pool.shared(container(f"new-{number}"))
        assert pool.shared(container("used")) is used
        assert len(pool) <= 4
    assert pool.shared(container("unused")) is not unused


def test_a_number_that_cannot_be_encoded_is_not_shared() -> None:
    strange = ResourceRequirements(requests={"cpu": 10**30})
    assert InternPool[ResourceRequirements](2).shared(strange) is strange
