"""The index of selectors: it finds those that match a pod's labels, and tries few of them."""

import hypothesis.strategies as st
from hypothesis import given

from common.labels import EVERYTHING, NOTHING, Selector, from_map, parse_selector
from recommender.model.matching import Selectors

KEYS = st.sampled_from(("app", "env", "tier"))
VALUES = st.sampled_from(("", "a", "b", "c"))
LABELS = st.dictionaries(KEYS, VALUES)
TEXTS = st.one_of(
    st.builds("{}={}".format, KEYS, VALUES),
    st.builds("{}!={}".format, KEYS, VALUES),
    st.builds("{} in ({},{})".format, KEYS, VALUES, VALUES),
    st.builds("{} notin ({})".format, KEYS, VALUES),
    st.builds("!{}".format, KEYS),
    KEYS,
)
SELECTORS = st.one_of(
    st.lists(TEXTS, max_size=3).map(",".join).map(parse_selector), st.just(NOTHING)
)
CHANGES = st.lists(st.tuples(st.sampled_from("vwxyz"), st.none() | SELECTORS))


@given(changes=CHANGES, labels=LABELS)
def test_the_index_finds_the_same_selectors_as_a_linear_search(
    changes: list[tuple[str, Selector | None]], labels: dict[str, str]
) -> None:
    selectors, by_name = Selectors(), dict[str, Selector]()
    for name, selector in changes:
        if selector is not None:
            selectors.put(name, selector)
            by_name[name] = selector
        elif by_name.pop(name, None) is not None:
            selectors.remove(name)
    found = sorted(selectors.matching(labels))
    assert found == sorted(name for name, one in by_name.items() if one.matches(labels))
    assert bool(selectors) == bool(by_name)


def test_few_of_a_thousand_selectors_are_tried() -> None:
    selectors = Selectors()
    for number in range(1000):
        labels = {"app": f"app-{number}", "env": "prod", "aaa": "first"}
        selectors.put(f"vpa-{number}", from_map(labels))
    tried = [name for name, _ in selectors.candidates({"app": "app-7", "env": "prod"})]
    assert tried[-1] == "vpa-7"
    assert len(tried) <= 2, "the first is under the first label key, which had no selector yet"


def test_a_selector_without_a_required_label_is_tried_on_every_pod() -> None:
    selectors = Selectors()
    selectors.put("all", EVERYTHING)
    selectors.put("present", parse_selector("app"))
    assert sorted(selectors.matching({"app": "web"})) == ["all", "present"]
    assert sorted(selectors.matching({})) == ["all"]
