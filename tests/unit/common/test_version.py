"""The version, and where it is reported."""

import importlib.metadata
import platform
import sys
import tomllib
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from admission.metrics import AdmissionMetrics
from common.version import user_agent, version, version_info
from recommender.metrics import RecommenderMetrics
from updater.metrics import UpdaterMetrics

ROOT = Path(__file__).resolve().parents[3]


def test_the_version_is_that_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert version() == project["version"]


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert version.__wrapped__() == "0+unknown"


def test_the_user_agent_names_the_version() -> None:
    assert user_agent("vpa-updater") == f"vpa-updater/{version()}"


@pytest.mark.parametrize(
    ("found", "major", "minor"),
    [
        ("0.1.0", "0", "1"),
        ("2.13.4rc1+local.5", "2", "13"),
        ("3", "3", "0"),
        ("0+unknown", "0", "0"),
    ],
)
def test_version_info_has_the_fields_of_an_api_server(found: str, major: str, minor: str) -> None:
    info = version_info(found)
    assert (info["major"], info["minor"], info["gitVersion"]) == (major, minor, f"v{found}")
    assert info["pythonVersion"] == platform.python_version()
    assert info["platform"].startswith(f"{sys.platform}/")


def test_each_component_exposes_its_version() -> None:
    recommender = RecommenderMetrics().registry
    updater, admission = CollectorRegistry(), CollectorRegistry()
    UpdaterMetrics(updater)
    AdmissionMetrics(admission)
    for component, registry in (
        ("recommender", recommender),
        ("updater", updater),
        ("admission_controller", admission),
    ):
        labels = f'python_version="{platform.python_version()}",version="{version()}"'
        line = f"vpa_{component}_build_info{{{labels}}} 1.0"
        assert line in generate_latest(registry).decode().splitlines()
