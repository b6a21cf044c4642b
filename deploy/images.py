"""Build the images with docker, podman or buildah: ``make images`` runs it, with any Python 3.11.

It uses the standard library alone, so it needs no virtual environment.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {
    "recommender": "vpa-recommender",
    "updater": "vpa-updater",
    "admission": "vpa-admission-controller",
    "certs": "vpa-certs",
}
"""The targets of the Dockerfile, and the names of their images."""

ENGINES = ("docker", "podman", "buildah")
PLATFORMS = "linux/amd64,linux/arm64"
_EXAMPLE = "make images REGISTRY=registry.example/vpa TAG=1.0.0"
_SBOM_FILE = "/sbom.cdx.json"  # in the images of podman and buildah, which have no attestations


class UsageError(Exception):
    """The arguments or the environment can't be used; the message says what to type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The images to build, and what to do with them."""

    registry: str
    tag: str
    platforms: str = PLATFORMS  # separated by commas
    push: bool = False
    arguments: tuple[tuple[str, str], ...] = ()  # of the Dockerfile

    def name(self, target: str) -> str:
        """Return the name of a target's image, with registry and tag."""
        return f"{self.registry}/{TARGETS[target]}:{self.tag}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command line; if ``may_fail``, the next one runs in any case."""

    words: tuple[str, ...]
    may_fail: bool = False

    def __str__(self) -> str:
        return shlex.join(self.words) + (" || true" if self.may_fail else "")


def image_names(registry: str, tag: str) -> list[str]:
    """Return the names of all images that ``make images PUSH=1`` pushes."""
    request = Request(registry=registry, tag=tag)
    return [request.name(target) for target in TARGETS]


def commands(engine: str, request: Request) -> list[Command]:
    """Return the commands that build the images, and push them if requested.

    Raises:
        UsageError: the engine isn't supported.
    """
    kind = Path(engine).name
    if kind not in ENGINES:
        raise UsageError(f"{engine} is not supported; type: {_EXAMPLE} ENGINE={_or(ENGINES)}")
    of_target = _docker if kind == "docker" else _podman
    return [command for target in TARGETS for command in of_target(engine, target, request)]


def _docker(engine: str, target: str, request: Request) -> list[Command]:
    """Build with BuildKit, which attaches SBOM and provenance to images in a registry.

    The image store of the engine holds one platform, and no attestations.
    """
    output = ["--sbom=true", "--provenance=mode=max"]
    if request.push:
        output.append("--push")
    elif "," not in request.platforms:
        output = ["--load"]
    build = [engine, "buildx", "build", *_recipe(target, request), *output]
    return [Command((*build, f"--tag={request.name(target)}", "."))]


def _podman(engine: str, target: str, request: Request) -> list[Command]:
    """Build a manifest list with podman 5 or buildah 1.35, whose commands are the same.

    An existing list is removed first, because builds add to it.
    """
    name = request.name(target)
    sbom = ["--sbom=syft-cyclonedx", f"--sbom-image-output={_SBOM_FILE}"]
    build = [engine, "build", *_recipe(target, request), *sbom, f"--manifest={name}", "."]
    made = [Command((engine, "manifest", "rm", name), may_fail=True), Command(tuple(build))]
    if request.push:
        made.append(Command((engine, "manifest", "push", "--all", name, f"docker://{name}")))
    return made


def _recipe(target: str, request: Request) -> list[str]:
    return [
        "--file=deploy/Dockerfile",
        f"--target={target}",
        f"--platform={request.platforms}",
        *(f"--build-arg={name}={value}" for name, value in request.arguments),
    ]


def find_engine(which: Callable[[str], str | None] = shutil.which) -> str:
    """Return the first engine that is installed.

    Raises:
        UsageError: there is none.
    """
    for engine in ENGINES:
        if which(engine):
            return engine
    raise UsageError(
        f"no {_or(ENGINES)} found; install one, or type: {_EXAMPLE} ENGINE=/path/to/it"
    )


def source_url(remote: str) -> str:
    """Return the web address of a Git remote, without credentials; empty if it has none."""
    if short := re.fullmatch(r"[\w.-]+@([\w.-]+):([^/].*)", remote):
        return f"https://{short[1]}/{short[2]}".removesuffix(".git")
    url = urlsplit(remote)
    if url.scheme not in ("https", "http", "ssh", "git") or not url.hostname:
        return ""
    scheme = url.scheme if url.scheme.startswith("http") else "https"
    port = f":{url.port}" if url.port and url.scheme.startswith("http") else ""
    return f"{scheme}://{url.hostname}{port}{url.path}".removesuffix(".git")


def version() -> str:
    """Return the version of this checkout."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def build_arguments(source: str) -> tuple[tuple[str, str], ...]:
    """Return the arguments of the Dockerfile for this checkout.

    The time is that of the commit: the same commit gives the same labels.

    Raises:
        UsageError: this isn't a Git checkout, or no address of it is known.
    """
    try:
        revision = _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
        created = _git("log", "-1", "--format=%cI")
    except (OSError, subprocess.CalledProcessError):
        raise UsageError(
            "not a Git checkout; run docker as described in deploy/Dockerfile"
        ) from None
    if not source:
        try:
            source = source_url(_git("remote", "get-url", "origin"))
        except subprocess.CalledProcessError:
            source = ""
    if not source:
        raise UsageError(
            f"origin has no web address; type: {_EXAMPLE} SOURCE=https://address/of/it"
        )
    return (
        ("VERSION", version()),
        ("REVISION", revision),
        ("CREATED", created),
        ("SOURCE", source),
    )


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def main(argv: Sequence[str]) -> None:
    """Print each command, and run it unless ``--dry-run`` is given.

    Raises:
        UsageError: an argument is missing or can't be used.
        OSError: the engine can't be started.
        CalledProcessError: the engine failed.
    """
    parser = argparse.ArgumentParser(prog="images", description="Build the images.")
    parser.add_argument("--registry", default="")
    parser.add_argument("--tag", default="")
    parser.add_argument("--platforms", default=PLATFORMS)
    parser.add_argument("--engine", default="")
    parser.add_argument("--source", default="", help="address of the source code, for a label")
    parser.add_argument("--push", action="store_true")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    given = parser.parse_args(argv)
    if missing := [name for name in ("REGISTRY", "TAG") if not getattr(given, name.lower())]:
        raise UsageError(f"{' and '.join(missing)} missing; type: {_EXAMPLE}")
    request = Request(
        registry=given.registry.rstrip("/"),
        tag=given.tag,
        platforms=given.platforms or PLATFORMS,
        push=given.push,
        arguments=build_arguments(given.source),
    )
    for command in commands(given.engine or find_engine(), request):
        print(command, flush=True)
        if not given.dry_run:
            subprocess.run(command.words, check=not command.may_fail, cwd=ROOT)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (UsageError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"images: {error}")
