"""The custom resource definitions of operators, as `make definitions` fetches them."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_FETCHED = _ROOT / ".controlplane" / "definitions"
_MODULE = re.compile(r"^fetch \S+/(\S+) (v\S+)", re.MULTILINE)


def _folders() -> list[Path]:
    script = (_ROOT / "tests" / "definitions" / "fetch.sh").read_text("utf-8")
    return [_FETCHED / f"{name}-{version}" for name, version in _MODULE.findall(script)]


FOLDERS = _folders()
_PROBLEM = (
    ""
    if all(folder.is_dir() for folder in FOLDERS)
    else "definitions of operators are missing: run `make definitions`"
)
NEEDS_DEFINITIONS = pytest.mark.skipif(bool(_PROBLEM), reason=_PROBLEM)
"""The mark of tests that apply objects of these operators."""
