"""The licences of the packages that the images have."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from release import bill_of_materials
from release.checks import CheckResult, Release, ReleaseCheck, failed, ok

_PERMISSIVE = "asks for its text, which is in the package, or for nothing"
ALLOWED: Mapping[str, str] = {
    "0BSD": _PERMISSIVE,
    "Apache-2.0": "the licence of this project",
    "BSD-2-Clause": _PERMISSIVE,
    "BSD-3-Clause": _PERMISSIVE,
    "CC0-1.0": _PERMISSIVE,
    "MIT": _PERMISSIVE,
    "MIT-0": _PERMISSIVE,
    "MPL-2.0": "asks for the source of changed files; the packages are unchanged",
    "PSF-2.0": "the licence of Python",
    "Python-2.0": "the licence of Python, with those of its past owners",
    "Zlib": _PERMISSIVE,
}
"""SPDX identifiers of licences, with the reason why a package in an image may have each."""

CLASSIFIERS: Mapping[str, str] = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""The identifiers of licences that packages name by a classifier only."""

_OPERATOR = re.compile(r"[\s()]+(?:AND|OR|WITH)?[\s()]*|[()]")


def licences(component: Mapping[str, Any]) -> set[str]:
    """Return every licence that a package names.

    A choice between licences (``OR``) counts as both: one that isn't allowed needs a decision.
    """
    found: set[str] = set()
    for entry in component.get("licenses", ()):
        if expression := entry.get("expression"):
            found |= set(filter(None, _OPERATOR.split(expression)))
            continue
        named = entry["license"].get("id") or entry["license"].get("name")
        found.add(CLASSIFIERS.get(named, named))
    return found


def problems(components: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the packages without a licence, and those with one that isn't allowed."""
    for component in components:
        found = licences(component)
        if not found:
            yield f"{component['name']} has no licence"
        for name in sorted(found - ALLOWED.keys()):
            yield f"{component['name']} has {name}"


def check(release: Release) -> CheckResult:
    """Check the packages in the bill of materials."""
    if not release.bill_of_materials.is_file():
        return failed("there is no bill of materials: write it first")
    components = bill_of_materials.components(release)
    if wrong := list(problems(components)):
        return failed(f"{'; '.join(wrong)}: replace it, or explain it in release/licences.py")
    return ok(", ".join(sorted(set().union(*map(licences, components)))))


CHECKS = (ReleaseCheck("licences of dependencies", check),)
