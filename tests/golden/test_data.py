"""The golden data equal the recorded ones."""

import hashlib
import os
from pathlib import Path

import pytest

from golden_data import FOLDER

SOURCE = os.environ.get("VPA_GOLDEN_SOURCE", "")


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name.endswith((".json", ".jsonl.gz"))
    }


@pytest.mark.skipif(not SOURCE, reason="VPA_GOLDEN_SOURCE names no folder to compare with")
def test_the_copy_equals_the_source() -> None:
    assert digests(FOLDER) == digests(Path(SOURCE))


def test_every_file_is_read_by_a_test() -> None:
    tests = "".join(
        path.read_text("utf-8")
        for path in FOLDER.parents[1].rglob("*.py")
        if path != Path(__file__)
    )
    names = {path.name.partition(".")[0] for path in FOLDER.iterdir()}
    assert {name for name in names if f'"{name}"' not in tests} == set()
