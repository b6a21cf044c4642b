"""The archive and the manifest of the krew plugin: ``make krew URL=https://…``.

The archive has the program with all packages that it needs, for this platform and this version of
Python. It is made from the environment that the release check of ``kubectl vpa`` installs from
pinned packages, so run that check first.
"""

import argparse
import gzip
import hashlib
import importlib.metadata
import io
import platform
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.checks import (
    CheckResult,
    Release,
    ReleaseCheck,
    failed,
    ok,
    run_checks,
    run_program,
)
from release.distribution import CLI as PROGRAM

ROOT = Path(__file__).resolve().parent.parent
NEEDED = (
    *("aiohttp", "cryptography", "kubernetes-asyncio", "msgspec", "numpy", "prometheus-client"),
    *("PyYAML", "rich"),
)
"""What the program imports; other dependencies of the project belong to the components."""

_OWN = canonicalize_name("pyvpa")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
# krew calls the program by a symbolic link.
_LAUNCHER = f"""\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec env PYTHONPATH="$here/lib" {_PYTHON} -P -m kubectl_vpa "$@"
"""
_DESCRIPTION = """\
Shows one line for each VerticalPodAutoscaler with request, target, state and reason; explains
how a recommendation is computed and what prevents an update; reports what all workloads request
too much or too little; checks the installation; and creates and exports VerticalPodAutoscalers.
It reads the cluster with your own rights, and needs no component in it.
"""


def archive_name(release: Release) -> str:
    """Return the name of the archive for this platform."""
    system, machine = platform.system().lower(), platform.machine()
    return f"{PROGRAM}_{release.version}_{system}_{_ARCHITECTURES.get(machine, machine)}.tar.gz"


def distributions(folder: Path) -> dict[str, importlib.metadata.Distribution]:
    """Return our own distribution and those that the program needs, from a folder of packages."""
    found = {
        canonicalize_name(each.name): each
        for each in importlib.metadata.distributions(path=[str(folder)])
    }
    chosen: dict[str, importlib.metadata.Distribution] = {_OWN: found[_OWN]}
    pending = [Requirement(name) for name in NEEDED]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name in chosen or (marker is not None and not marker.evaluate({"extra": ""})):
            continue
        chosen[name] = found[name]
        pending += map(Requirement, found[name].requires or ())
    return chosen


def contents(release: Release) -> Iterator[tuple[str, bytes, int]]:
    """Yield the files of the archive: name, content and mode."""
    yield PROGRAM, _LAUNCHER.encode(), 0o755
    yield "LICENSE", (release.root / "LICENSE").read_bytes(), 0o644
    folder = release.cli_environment / "lib" / _PYTHON / "site-packages"
    for _, each in sorted(distributions(folder).items()):
        for file in each.files or ():
            path = folder / file
            if ".." not in file.parts and path.is_file() and "__pycache__" not in file.parts:
                yield f"lib/{file}", path.read_bytes(), 0o644


def write_archive(release: Release) -> Path:
    """Write the archive; equal packages result in an equal archive."""
    path = release.distributions / archive_name(release)
    path.parent.mkdir(exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content, mode in contents(release):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return path


def check(release: Release) -> CheckResult:
    """Write the archive, unpack it, and run the program."""
    if not release.cli_environment.is_dir():
        return failed("there is no environment with kubectl vpa: run `make release-check` first")
    path = write_archive(release)
    folder = release.root / "build" / ".krew"
    shutil.rmtree(folder, ignore_errors=True)  # packages of an older archive
    with tarfile.open(path) as tar:
        tar.extractall(folder, filter="data")
    said = run_program(folder / PROGRAM, "--version", folder=folder)
    if said.stdout.split() != [PROGRAM, release.version]:
        return failed("the program of the archive doesn't run", said.stdout + said.stderr)
    return ok(f"{path.name} in dist/, {path.stat().st_size / 2**20:.0f} MiB")


def manifest(release: Release, archives: Mapping[str, str], url: str) -> dict[str, Any]:
    """Return the manifest; ``archives`` are the SHA-256 digests by file name, below ``url``."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "vpa"},
        "spec": {
            "version": f"v{release.version}",
            "shortDescription": "Show what VPAs recommend and do, and why",
            "description": _DESCRIPTION,
            "caveats": f"This plugin needs {_PYTHON} on the PATH.\n",
            "platforms": [_platform(name, digest, url) for name, digest in archives.items()],
        },
    }


def _platform(name: str, digest: str, url: str) -> dict[str, Any]:
    system, architecture = name.removesuffix(".tar.gz").split("_")[-2:]
    return {
        "selector": {"matchLabels": {"os": system, "arch": architecture}},
        "uri": f"{url.rstrip('/')}/{name}",
        "sha256": digest,
        "bin": PROGRAM,
    }


CHECKS = (ReleaseCheck("archive for krew", check),)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the manifest for all archives in dist/, and print its path; return 1 on failure."""
    parser = argparse.ArgumentParser(prog="krew", description="Write the manifest for krew.")
    parser.add_argument("--url", required=True, help="The folder from which krew downloads.")
    url = parser.parse_args(arguments).url
    release = Release.of(ROOT)
    if not run_checks(CHECKS, release, write=print):
        return 1
    files = sorted(release.distributions.glob(f"{PROGRAM}_{release.version}_*.tar.gz"))
    digests = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}
    path = release.distributions / "vpa.yaml"
    path.write_text(yaml.safe_dump(manifest(release, digests, url), sort_keys=False))
    print(f"manifest ok: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
