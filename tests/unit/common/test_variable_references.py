"""References to variables in command lines, as a kubelet replaces them."""

import pytest

from common.variable_references import expand


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        pytest.param("$(A)$(A)", "11", id="every reference"),
        pytest.param("$(B)", "$(B)", id="an unknown variable stays"),
        pytest.param("$$(A)", "$(A)", id="two dollars are one"),
        pytest.param("$A $", "$A $", id="without parentheses it is no reference"),
    ],
)
def test_references_are_expanded(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded
