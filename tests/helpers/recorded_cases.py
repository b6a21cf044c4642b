"""Recorded requests and responses of real API servers, and functions to compare with them.

Data: ``tests/conformance/data``; the top folder is Kubernetes 1.36.3, the others hold the
differences of older versions. Volatile values (uid, resourceVersion, times) are ignored.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from sandbox.errors import ApiError
from sandbox.version import KubernetesVersion

FOLDER = Path(__file__).parents[1] / "conformance" / "data"
VERSIONS = {33: "v1.33.13", 35: "v1.35.4", 36: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request, and the response of the real server.

    ``own`` means that the response differs from 1.36's, or is 1.36's.
    """

    case: str
    minor: int
    own: bool
    raw: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.case} on 1.{self.minor}"

    @property
    def version(self) -> KubernetesVersion:
        return KubernetesVersion(self.minor)

    @property
    def method(self) -> str:
        return str(self.raw["request"]["method"])

    @property
    def path(self) -> list[str]:
        return str(urlsplit(self.raw["request"]["path"]).path).split("/")

    @property
    def dry_run(self) -> bool:
        return "dryRun" in parse_qs(urlsplit(self.raw["request"]["path"]).query)

    @property
    def content_type(self) -> str:
        return str(self.raw["request"].get("contentType", ""))

    @property
    def body(self) -> Any:
        return self.raw["request"].get("body")

    @property
    def encoded(self) -> bytes:
        return msgspec.json.encode(self.body)

    @property
    def status(self) -> int:
        return int(self.raw["status"])

    @property
    def response(self) -> Any:
        return self.raw["response"]


def recorded(prefix: str, minor: int = 36) -> list[Recorded]:
    """Return the cases whose name starts with ``prefix``, with the responses of that version."""
    own = {path.name: path for path in (FOLDER / VERSIONS[minor]).glob(f"{prefix}*.json")}
    files = {path.name: path for path in FOLDER.glob(f"{prefix}*.json")} | own
    return [
        Recorded(
            case=name.removesuffix(".json"),
            minor=minor,
            own=name in own,
            raw=json.loads(path.read_text()),
        )
        for name, path in sorted(files.items())
    ]


def body_of(case: Recorded) -> bytes:
    """Return the body as it was sent. The recording only describes the longest one."""
    if case.case == "resize-json-patch-too-many-operations":
        return (
            b"[" + b",".join([b'{"op":"test","path":"/metadata/name","value":"x"}'] * 10_001) + b"]"
        )
    return case.encoded


def refusal(error: ApiError) -> dict[str, Any]:
    """Return the compared parts of an error: code, reason, message, and details with causes."""
    return answer(error.status_object())


def answer(response: dict[str, Any]) -> dict[str, Any]:
    """Return the compared parts of a recorded response, an error or a pod."""
    if response.get("kind") == "Status":
        return {
            key: response[key]
            for key in ("code", "reason", "message", "details")
            if key in response
        }
    spec, meta = response["spec"], response["metadata"]
    return {
        "generation": meta.get("generation"),
        "labels": meta.get("labels"),
        "annotations": meta.get("annotations"),
        "finalizers": meta.get("finalizers"),
        "resources": spec.get("resources"),
        "containers": [_container(one) for one in spec["containers"]],
        "initContainers": [_container(one) for one in spec.get("initContainers") or ()],
    }


def _container(container: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container["image"],
        "resources": container.get("resources") or {},
        "resizePolicy": container.get("resizePolicy"),
    }
