"""Files that name the version of the release."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import yaml

from common.version import version
from release.checks import CheckResult, Release, ReleaseCheck, failed, ok

CHART = "deploy/chart"
COMPONENTS = "deploy/components"
STATIC_PODS = "deploy/control-plane/static-pods"

_SECTION = re.compile(r"^## (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVersion:
    """A place in a file that has to name the version of the release."""

    file: str
    what: str
    read: Callable[[str], list[str]]  # returns what the text has at this place


def first_section(changelog: str) -> list[str]:
    """Return the heading of the first section: that of the version which is being made."""
    return _SECTION.findall(changelog)[:1]


def field(name: str) -> Callable[[str], list[str]]:
    """Return a function that reads a field of a YAML document."""

    def read(text: str) -> list[str]:
        content = yaml.safe_load(text) or {}
        return [str(content[name])] if name in content else []

    return read


def image_tags(kustomization: str) -> list[str]:
    """Return the tag of each image of a kustomization; one without a tag is empty."""
    images = (yaml.safe_load(kustomization) or {}).get("images") or []
    return [str(image.get("newTag", "")) for image in images]


def pod_image_tags(pod: str) -> list[str]:
    """Return the tag of each image of a pod; one without a tag is empty."""
    containers = ((yaml.safe_load(pod) or {}).get("spec") or {}).get("containers") or []
    last_parts = (str(each.get("image", "")).rpartition("/")[2] for each in containers)
    return [name.partition(":")[2] for name in last_parts]


PLACES = (
    NamedVersion(file="CHANGELOG.md", what="first section", read=first_section),
    NamedVersion(file=f"{CHART}/Chart.yaml", what="version", read=field("version")),
    NamedVersion(file=f"{CHART}/Chart.yaml", what="appVersion", read=field("appVersion")),
    NamedVersion(file=f"{COMPONENTS}/kustomization.yaml", what="newTag of images", read=image_tags),
    *(
        NamedVersion(
            file=f"{STATIC_PODS}/{name}.yaml", what="tag of the image", read=pod_image_tags
        )
        for name in ("vpa-recommender", "vpa-updater", "vpa-admission-controller")
    ),
)


def check_place(place: NamedVersion, release: Release) -> CheckResult:
    """Check that a place of a file names the version."""
    path = release.root / place.file
    if not path.is_file():
        return failed(f"{place.file} is missing: add it, with {place.what} {release.version}")
    found = place.read(path.read_text(encoding="utf-8"))
    if not found:
        return failed(f"{place.file} has no {place.what}: write {release.version}")
    wrong = sorted(set(found) - {release.version})
    if wrong:
        return failed(f"{place.file} has {' and '.join(map(repr, wrong))}: write {release.version}")
    return ok()


def check_installed(release: Release) -> CheckResult:
    """Check that programs of the checkout report the version of ``pyproject.toml``."""
    if version() != release.version:
        return failed(f"programs report {version()}: run `make venv`")
    return ok(release.version)


CHECKS = (
    ReleaseCheck("version of pyproject.toml", check_installed),
    *(
        ReleaseCheck(f"{place.what} of {place.file}", partial(check_place, place))
        for place in PLACES
    ),
)
