"""Execute the stages of a Dockerfile in root folders.

Each stage is a folder with the files that it adds, on top of those of its base. An overlay mount
shows them as one root, in which RUN executes. The Python that runs this program stands in for the
base image: in /usr/local as in official images, with the programs and libraries of this machine.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from image_roots import system
from image_roots.context import copy_context
from image_roots.dockerfile import (
    Dockerfile,
    Instruction,
    Stage,
    UnsupportedError,
    copy_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The part of an image that isn't files."""

    environ: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the configuration with the names of the OCI image specification."""
        content = {
            "Env": [f"{name}={value}" for name, value in self.environ.items()],
            "Labels": dict(self.labels),
            "WorkingDir": self.folder,
            "User": self.user,
            "Entrypoint": list(self.entrypoint),
        }
        return json.dumps(content, indent=2)


@dataclass(frozen=True, slots=True)
class Built:
    """A stage after its last instruction."""

    layers: tuple[Path, ...]  # the lowest first
    config: Config


class Builder:
    """Builds the stages of a Dockerfile, each of them once."""

    def __init__(
        self,
        dockerfile: Dockerfile,
        *,
        context: Path,
        given: Mapping[str, str],
        work: Path,
        report: Callable[[str], None],
    ) -> None:
        """Take build arguments from ``given``, and put the files of all stages into ``work``."""
        self._dockerfile = dockerfile
        self._given = given
        self._work = work
        self._report = report
        self._built: dict[str, Built] = {}
        self._context = work / "context"
        copy_context(context, self._context)

    def build(self, stage: Stage) -> Built:
        """Build a stage and those that it needs.

        Raises:
            CommandError: an instruction failed.
            UnsupportedError: an instruction isn't supported.
        """
        if stage.name not in self._built:
            base = self._base(stage.base)
            upper = self._new_folder()
            with system.overlay(base.layers, work=self._work, upper=upper) as root:
                system.show_system(root)
                config, declared = base.config, dict[str, str]()
                for each in stage.instructions:
                    self._report(f"{stage.name or 'last stage'}: {each.name} {each.text[:90]}")
                    config = self._execute(each, root, config, declared)
            self._built[stage.name] = Built((*base.layers, upper), config)
        return self._built[stage.name]

    def export(self, built: Built, root: Path) -> None:
        """Write the files of a stage to a folder, and its configuration beside it."""
        with system.overlay(built.layers, work=self._work) as merged:
            root.mkdir()
            system.copy(f"{merged}/.", root)
        root.with_suffix(".json").write_text(built.config.to_json(), encoding="utf-8")

    def _base(self, name: str) -> Built:
        for stage in self._dockerfile.stages:
            if stage.name == name:
                return self.build(stage)
        if name not in self._dockerfile.arguments.values():
            raise UnsupportedError(f"FROM {name}: neither a stage nor an argument of the file")
        if name not in self._built:
            self._built[name] = self._stand_in()
        return self._built[name]

    def _stand_in(self) -> Built:
        """Return what stands in for a base image: Python, and the packages that come with it."""
        files, installed = self._new_folder(), self._new_folder()
        system.lay_out_base(files)
        config = Config(environ=system.base_environment())
        with system.overlay((files,), work=self._work, upper=installed) as root:
            system.show_system(root)
            install = ["python", "-B", "-m", "ensurepip", "--default-pip"]
            system.execute(root, install, environ=config.environ)
        return Built((files, installed), config)

    def _execute(
        self, instruction: Instruction, root: Path, config: Config, declared: dict[str, str]
    ) -> Config:
        """Execute an instruction; return the configuration after it, and update ``declared``."""
        variables = {**declared, **config.environ}
        match instruction.name:
            case "ARG":
                name, _, default = instruction.text.partition("=")
                declared[name] = self._given.get(name, default)
            case "ENV":
                environ = {**config.environ, **instruction.pairs(variables)}
                return replace(config, environ=environ)
            case "LABEL":
                return replace(config, labels={**config.labels, **instruction.pairs(variables)})
            case "WORKDIR":
                (folder,) = instruction.words(variables)
                _inside(root, folder).mkdir(parents=True, exist_ok=True)
                return replace(config, folder=folder)
            case "USER":
                (user,) = instruction.words(variables)
                return replace(config, user=user)
            case "ENTRYPOINT":
                return replace(config, entrypoint=tuple(instruction.command()))
            case "COPY":
                self._copy(instruction, root, config.folder, variables)
            case "RUN":
                system.execute(
                    root,
                    instruction.command(),
                    environ={**system.passed_environment(), **declared, **config.environ},
                    user=config.user,
                    folder=config.folder,
                )
            case _:
                raise instruction.unsupported("the instruction")
        return config

    def _copy(
        self, instruction: Instruction, root: Path, folder: str, variables: Mapping[str, str]
    ) -> None:
        """Copy files into a folder, or the content of a folder; other forms are refused."""
        copy = copy_of(instruction, variables)
        target = _inside(root, f"{folder}/{copy.destination}")
        if copy.destination.startswith("/"):
            target = _inside(root, copy.destination)
        target.mkdir(parents=True, exist_ok=True)
        with self._files_of(copy.stage) as files:
            for name in copy.sources:
                source = _inside(files, name)
                if source.is_dir() and len(copy.sources) == 1:
                    system.copy(f"{source}/.", target)
                elif source.is_file() and copy.destination.endswith("/"):
                    system.copy(str(source), target)
                else:
                    raise instruction.unsupported(f"{name} to {copy.destination}")

    def _files_of(self, stage: str) -> AbstractContextManager[Path]:
        if not stage:
            return nullcontext(self._context)
        return system.overlay(self.build(self._dockerfile.stage(stage)).layers, work=self._work)

    def _new_folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(dir=self._work))
        folder.chmod(0o755)
        return folder


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")
