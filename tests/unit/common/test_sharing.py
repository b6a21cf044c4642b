"""Equal parts of many objects are kept once, and never more of them than a pool holds."""

from builders import container
from common.api.core import Container, ResourceRequirements
from common.api.sharing import Pool


def test_equal_values_are_one() -> None:
    pool = Pool[Container](10)
    first = pool.shared(container(requests={"cpu": "1"}))
    assert pool.shared(container(requests={"cpu": "1"})) is first
    assert pool.shared(container(requests={"cpu": "2"})) is not first
    assert pool.shared(container("other", requests={"cpu": "1"})) is not first


def test_what_is_used_stays_and_the_rest_makes_room() -> None:
    pool = Pool[Container](2)
    used = pool.shared(container("used"))
    unused = pool.shared(container("unused"))
    for number in range(10):
        pool.shared(container(f"new-{number}"))
        assert pool.shared(container("used")) is used
        assert len(pool) <= 4
    assert pool.shared(container("unused")) is not unused


def test_a_number_that_cannot_be_encoded_is_not_shared() -> None:
    strange = ResourceRequirements(requests={"cpu": 10**30})
    assert Pool[ResourceRequirements](2).shared(strange) is strange
