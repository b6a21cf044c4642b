"""Files that name the version of a release."""

from dataclasses import replace
from pathlib import Path

import pytest

from release.checks import CheckState, Release
from release.named_versions import PLACES, NamedVersion, check_installed, check_place

RELEASE = Release(root=Path(), version="1.2.3", programs=())
CHANGELOG, CHART, APP, TAGS, POD, *_ = PLACES


@pytest.mark.parametrize(
    ("place", "text"),
    [
        pytest.param(CHANGELOG, "# C\n\n## 1.2.3\n\n## 1.2.2\n", id="changelog"),
        pytest.param(CHANGELOG, "## 1.2.3 - 2026-01-02\n", id="changelog, with a date"),
        pytest.param(CHART, "version: 1.2.3\nappVersion: '1'\n", id="chart"),
        pytest.param(APP, "version: 9\nappVersion: 1.2.3\n", id="images of the chart"),
        pytest.param(TAGS, "images: [{newTag: 1.2.3}, {newTag: 1.2.3}]", id="tags"),
        pytest.param(POD, "spec: {containers: [{image: 'r:5000/vpa:1.2.3'}]}", id="static pod"),
    ],
)
def test_a_file_that_names_the_version(place: NamedVersion, text: str, tmp_path: Path) -> None:
    write(tmp_path / place.file, text)
    assert check_place(place, replace(RELEASE, root=tmp_path)).state is CheckState.OK


@pytest.mark.parametrize(
    ("place", "text", "problem"),
    [
        pytest.param(CHANGELOG, "## Unreleased\n\n## 1.2.3\n", "'Unreleased'", id="unreleased"),
        pytest.param(CHANGELOG, "## 1.2.2\n## 1.2.3\n", "'1.2.2'", id="another version first"),
        pytest.param(CHANGELOG, "### 1.2.3\n", "no first section", id="no section"),
        pytest.param(CHART, "version: 1.2.4\n", "has '1.2.4': write 1.2.3", id="another chart"),
        pytest.param(CHART, "version: 1.2\n", "'1.2'", id="a version that is a number"),
        pytest.param(CHART, "name: vpa\n", "no version", id="chart without a version"),
        pytest.param(CHART, "", "no version", id="empty chart"),
        pytest.param(APP, "version: 1.2.3\nappVersion: 1.2.2\n", "'1.2.2'", id="old images"),
        pytest.param(TAGS, "images: [{newTag: 1.2.3}, {newTag: v1.2.3}]", "'v1.2.3'", id="a v"),
        pytest.param(TAGS, "images: [{newTag: 1.2.3}, {name: x}]", "has ''", id="no tag"),
        pytest.param(POD, "spec: {containers: [{image: 'r/vpa:1.2.2'}]}", "'1.2.2'", id="old pod"),
        pytest.param(POD, "spec: {containers: [{image: 'r:5/v'}]}", "has ''", id="untagged pod"),
        pytest.param(POD, "spec: {}\n", "no tag of the image", id="pod without a container"),
        pytest.param(TAGS, "resources: []\n", "no newTag of images", id="no images"),
    ],
)
def test_a_file_that_does_not(place: NamedVersion, text: str, problem: str, tmp_path: Path) -> None:
    write(tmp_path / place.file, text)
    result = check_place(place, replace(RELEASE, root=tmp_path))
    assert result.state is CheckState.FAILED
    assert problem in result.text


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.file} {place.what}")
def test_a_missing_file_is_a_failure(place: NamedVersion, tmp_path: Path) -> None:
    result = check_place(place, replace(RELEASE, root=tmp_path))
    assert result.state is CheckState.FAILED
    assert result.text.startswith(f"{place.file} is missing: add it")


def test_programs_of_another_version() -> None:
    assert check_installed(RELEASE).text.endswith("run `make venv`")


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
