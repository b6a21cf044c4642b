"""The CustomResourceDefinitions of the installation, as documents that a test may change."""

import functools
from pathlib import Path
from typing import Any

import msgspec
import yaml

_FOLDER = Path(__file__).parents[2] / "deploy" / "crd"


def vpa_definition() -> dict[str, Any]:
    """Return the definition of VerticalPodAutoscalers."""
    return _decoded(_FOLDER / "verticalpodautoscalers.yaml")


def all_definitions() -> list[dict[str, Any]]:
    """Return the definitions of VPAs and of their checkpoints."""
    return [_decoded(path) for path in sorted(_FOLDER.glob("vertical*.yaml"))]


def _decoded(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(_as_json(path))
    return document


@functools.cache
def _as_json(path: Path) -> bytes:
    """Return a manifest as JSON, because parsing YAML takes a tenth of a second each time."""
    return msgspec.json.encode(yaml.safe_load(path.read_text("utf-8")))
