"""Edge cases of merging LimitRanges; ordinary merges are in the golden data."""

from common.api.core import LimitRangeItem, LimitRangeSpec
from common.recommendation.limit_range import LimitType, effective_limits


def test_equal_bounds_keep_the_later_text() -> None:
    specs = [
        LimitRangeSpec(limits=(LimitRangeItem(type="Container", max=bound, min=bound),))
        for bound in ({"cpu": "1"}, {"cpu": "+1"})
    ]
    merged = effective_limits(specs, LimitType.CONTAINER)
    assert merged is not None
    assert (str(merged.max["cpu"]), str(merged.min["cpu"])) == ("+1", "+1")


def test_a_resource_without_order_comes_from_the_first_item() -> None:
    specs = [
        LimitRangeSpec(limits=(LimitRangeItem(type="Pod", max={"storage": bound}),))
        for bound in ("2Gi", "1Gi")
    ]
    merged = effective_limits(specs, LimitType.POD)
    assert merged is not None
    assert str(merged.max["storage"]) == "2Gi"


def test_items_of_other_types_and_absent_lists_do_not_count() -> None:
    specs = [
        LimitRangeSpec(),
        LimitRangeSpec(limits=(LimitRangeItem(type="PersistentVolumeClaim", max={"cpu": "1"}),)),
        LimitRangeSpec(limits=(LimitRangeItem(type="Pod"),)),
    ]
    for kind in LimitType:
        assert effective_limits(specs, kind) is None


def test_an_empty_default_replaces_an_earlier_one() -> None:
    specs = [
        LimitRangeSpec(limits=(LimitRangeItem(type="Container", default=default),))
        for default in ({"cpu": "1"}, {})
    ]
    merged = effective_limits(specs, LimitType.CONTAINER)
    assert merged is not None
    assert merged.default == {}
