"""The packages that the Dockerfile names for each image, and those that its component imports."""

import functools
import importlib.metadata
import shlex
import sys
from pathlib import Path

import grimp
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from image_roots.dockerfile import Instruction, Stage, copy_of, parse

ROOT = Path(__file__).parents[2]
DOCKERFILE = parse((ROOT / "deploy/Dockerfile").read_text("utf-8"))
PACKAGES = ("common", "recommender", "updater", "admission", "certs")


def of_kind(stage: Stage, name: str) -> list[Instruction]:
    """Return the instructions of a stage with this name."""
    return [each for each in stage.instructions if each.name == name]


def chain(stage: Stage) -> list[Stage]:
    """Return a stage and those that it is based on."""
    based = [each for each in DOCKERFILE.stages if each.name == stage.base]
    return [stage, *(more for each in based for more in chain(each))]


def installed(target: str) -> list[str]:
    """Return the packages that the Dockerfile names for a component, without this project."""
    (copy,) = of_kind(DOCKERFILE.stage(target), "COPY")
    files = DOCKERFILE.stage(copy_of(copy, {}).stage)
    runs = [run for stage in chain(files) for run in of_kind(stage, "RUN")]
    commands = [shlex.split(part) for run in runs for part in run.text.split("&&")]
    names = [
        word
        for words in commands
        if words[0] == "pip" and "install" in words
        for word in words[words.index("install") + 1 :]
        if not word.startswith(("-", "pyvpa=="))
    ]
    return [canonicalize_name(name) for name in names]


@functools.cache
def _reached(target: str) -> set[str]:
    """Return the modules that a component imports, at any time, and the packages of others."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)
    found, pending = set[str](), {f"{target}.__main__"}
    while pending:
        name = pending.pop()
        found.add(name)
        parent = {name.rpartition(".")[0]} - {""}  # Python imports it with the module
        pending |= (graph.find_modules_directly_imported_by(name) | parent) - found
    return found


def modules(target: str) -> set[str]:
    """Return the modules of this project that a component imports."""
    return {name for name in _reached(target) if name.partition(".")[0] in PACKAGES}


def imported(target: str) -> set[str]:
    """Return the packages that the modules of a component import."""
    distributions = importlib.metadata.packages_distributions()
    external = _reached(target) - modules(target) - sys.stdlib_module_names
    return {canonicalize_name(found) for name in external for found in distributions[name]}


def required(names: set[str]) -> set[str]:
    """Return the packages that the named ones require, directly or not, on this machine."""
    found, pending = set[str](), set(names)
    while pending:
        for text in importlib.metadata.requires(pending.pop()) or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in found and (
                requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            ):
                found.add(name)
                pending.add(name)
    return found
