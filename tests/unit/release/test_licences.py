"""The licences that packages of the images may have."""

from typing import Any

import pytest

from release.licences import licences, problems


def package(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"name": "x", "licenses": list(entries)}


def named(**licence: str) -> dict[str, Any]:
    return {"license": licence}


CLASSIFIER = "License :: OSI Approved :: Apache Software License"


@pytest.mark.parametrize(
    ("component", "want"),
    [
        pytest.param(package(named(id="MIT")), {"MIT"}, id="an identifier"),
        pytest.param(package(named(name=CLASSIFIER)), {"Apache-2.0"}, id="a known classifier"),
        pytest.param(package(named(name="BSD")), {"BSD"}, id="another name"),
        pytest.param(package(named(id="MIT"), named(id="Zlib")), {"MIT", "Zlib"}, id="several"),
        pytest.param(
            package({"expression": "(MIT AND Zlib) OR GPL-3.0-only"}),
            {"MIT", "Zlib", "GPL-3.0-only"},
            id="an expression",
        ),
        pytest.param(
            package({"expression": "Apache-2.0 WITH LLVM-exception"}),
            {"Apache-2.0", "LLVM-exception"},
            id="an exception",
        ),
        pytest.param({"name": "x"}, set(), id="none"),
    ],
)
def test_the_licences_of_a_package(component: dict[str, Any], want: set[str]) -> None:
    assert licences(component) == want


@pytest.mark.parametrize(
    ("component", "want"),
    [
        pytest.param(package(named(id="MIT")), [], id="allowed"),
        pytest.param(package(named(id="GPL-3.0-only")), ["x has GPL-3.0-only"], id="not allowed"),
        pytest.param(
            package({"expression": "MIT OR GPL-3.0-only"}), ["x has GPL-3.0-only"], id="a choice"
        ),
        pytest.param(package(), ["x has no licence"], id="none"),
    ],
)
def test_problems(component: dict[str, Any], want: list[str]) -> None:
    assert list(problems([component])) == want
