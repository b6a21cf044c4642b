"""References that may be used in request paths."""

import pytest

from common.target.references import api_version_problem, reference_problem

ACCEPTED = {
    "core": "v1",
    "well-known": "apps/v1",
    "custom": "example.com/v1alpha1",
    "group without a dot": "batch/v1beta1",
    "long label in a group": f"{'a' * 250}/v1",
    "longest group": f"{'a' * 253}/v1",
    "longest group of several labels": f"{'.'.join(['a' * 62] * 4)}.a/v1",
    "longest version": f"apps/{'v' * 63}",
    "digits first": "1password.com/v1",
    "empty": "",
}
REFUSED = {
    "control character": "x\u0001/v1",
    "query": "apps/v1/replicasets?x=N/y",
    "watch of everything": "apps/v1/daemonsets?watch=1&x=N/y",
    "fragment": "apps#/v1",
    "two slashes": "apps//v1",
    "no group": "/v1",
    "no version": "apps/",
    "only a slash": "/",
    "dots": "../v1",
    "dots as version": "apps/..",
    "escaped slash": "apps%2fv1/y",
    "space": "apps /v1",
    "line break at the end": "apps/v1\n",
    "unicode": "äpps/v1",
    "digit of another script": "apps/v\u0661",
    "upper case": "Apps/v1",
    "group too long": f"{'a' * 254}/v1",
    "group of several labels too long": f"{'.'.join(['a' * 62] * 4)}.aa/v1",
    "version too long": f"apps/{'v' * 64}",
    "version too long, without a group": "v" * 64,
    "empty label": "a..b/v1",
    "dash at the end": "apps-/v1",
    "dot in the version": "apps/v1.2",
    "NUL": "apps\u0000/v1",
}
NAMES_REFUSED = ["", ".", "..", "a/b", "a%2fb", "a\u0000", "a\nb", "a" * 254, "\u202e"]


@pytest.mark.parametrize("api_version", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_valid_versions(api_version: str) -> None:
    assert api_version_problem(api_version) == ""
    assert reference_problem(api_version, "web") == ""


@pytest.mark.parametrize("api_version", REFUSED.values(), ids=REFUSED.keys())
def test_invalid_versions(api_version: str) -> None:
    problem = api_version_problem(api_version)
    assert problem.startswith("apiVersion ")
    assert problem.isascii()
    assert problem.isprintable()
    assert reference_problem(api_version, "web") == problem


def test_a_long_version_is_shortened_in_the_message() -> None:
    assert len(api_version_problem("?" * 5000)) < 300


@pytest.mark.parametrize("name", ["web", "a" * 253, "system:node", "Web_1", "a b"])
def test_valid_names(name: str) -> None:
    assert reference_problem("v1", name) == ""


@pytest.mark.parametrize("name", NAMES_REFUSED, ids=ascii)
def test_invalid_names(name: str) -> None:
    assert reference_problem("v1", name).startswith("name ")
