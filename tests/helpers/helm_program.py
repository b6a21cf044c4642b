"""Helm as a program; tests that need it are skipped where it is missing."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"

_MODULE = ROOT / "tests" / "helm" / "go.mod"
_REQUIRED = re.compile(r"^\s*helm\.sh/helm/v3 (v\S+)", re.MULTILINE)


def _program() -> str | None:
    """Return the path of the Helm that `make helm` builds, else of one on the PATH."""
    (version,) = _REQUIRED.findall(_MODULE.read_text("utf-8"))
    built = ROOT / ".controlplane" / "helm" / version / "helm"
    return str(built) if built.is_file() else shutil.which("helm")


HELM = _program()
PROBLEM = "" if HELM else "helm is missing: run `make helm`"
NEEDS_HELM = [pytest.mark.helm, pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)]
"""The marks of tests that need the program."""


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """Run Helm with these values for a chart and return its output.

    Raises:
        CalledProcessError: Helm failed; ``stderr`` is its message.
    """
    given = ("--values=-",) if values is not None else ()
    return subprocess.run(
        [str(HELM), *arguments, *given],
        input=yaml.safe_dump(dict(values or {})),
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def template(
    values: Mapping[str, Any] | None = None, *, namespace: str = "kube-system"
) -> list[dict[str, Any]]:
    """Return the objects that the chart renders with these values.

    Raises:
        CalledProcessError: the chart refused the values; ``stderr`` is the reason.
    """
    text = helm("template", "vpa", str(CHART), f"--namespace={namespace}", values=values or {})
    return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]


def refusal(values: Mapping[str, Any]) -> str:
    """Return the reason why the chart refuses these values."""
    with pytest.raises(subprocess.CalledProcessError) as raised:
        template(values)
    return str(raised.value.stderr)
