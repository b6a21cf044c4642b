"""Read a Dockerfile: the part of the syntax that ``deploy/Dockerfile`` uses, and no more."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_KNOWN = ("ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "LABEL", "ENTRYPOINT")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class UnsupportedError(Exception):
    """The Dockerfile uses syntax that this program doesn't execute."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; continued lines are joined."""

    line: int
    name: str
    text: str

    def unsupported(self, problem: str) -> UnsupportedError:
        return UnsupportedError(f"line {self.line}: {self.name}: {problem} is not supported")

    def expand(self, text: str, variables: Mapping[str, str]) -> str:
        """Replace ``${NAME}``.

        Raises:
            UnsupportedError: a name is not declared, or the syntax is another one.
        """
        for name in _VARIABLE.findall(text):
            if name not in variables:
                raise UnsupportedError(f"line {self.line}: {self.name}: {name} is not declared")
        expanded = _VARIABLE.sub(lambda found: variables[found[1]], text)
        if "$" in _VARIABLE.sub("", text):
            raise self.unsupported(f"the variable in {text}")
        return expanded

    def words(self, variables: Mapping[str, str]) -> list[str]:
        """Return the words of the text, without quotes, with the values of variables."""
        return [self.expand(word, variables) for word in shlex.split(self.text)]

    def pairs(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the ``name=value`` words of ENV and LABEL."""
        pairs = {}
        for word in self.words(variables):
            name, equals, value = word.partition("=")
            if not equals:
                raise self.unsupported(f"{word} without a value")
            pairs[name] = value
        return pairs

    def command(self) -> list[str]:
        """Return the command line of RUN or ENTRYPOINT in either form."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return ["/bin/sh", "-c", self.text]


@dataclass(frozen=True, slots=True)
class Stage:
    """The instructions from one FROM to the next."""

    base: str  # the name of an earlier stage, or of an image
    name: str  # empty: it has none
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The stages, and the arguments before the first one."""

    arguments: Mapping[str, str]
    stages: tuple[Stage, ...]

    def stage(self, target: str) -> Stage:
        """Return a stage by its name; the last one for an empty name, as engines do.

        Raises:
            UnsupportedError: there is no stage of this name.
        """
        if not target:
            return self.stages[-1]
        for stage in self.stages:
            if stage.name == target:
                return stage
        names = ", ".join(stage.name for stage in self.stages if stage.name)
        raise UnsupportedError(f"no target {target!r}; there are {names}")


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY instruction."""

    stage: str  # empty: from the context
    sources: tuple[str, ...]
    destination: str


def copy_of(instruction: Instruction, variables: Mapping[str, str]) -> Copy:
    """Return what a COPY instruction copies.

    Raises:
        UnsupportedError: it has another flag than ``--from``, or is incomplete.
    """
    words, stage = instruction.words(variables), ""
    while words and words[0].startswith("--"):
        flag, _, value = words.pop(0).partition("=")
        if flag != "--from":
            raise instruction.unsupported(flag)
        stage = value
    if len(words) < 2 or words[0].startswith("["):
        raise instruction.unsupported(instruction.text)
    return Copy(stage, tuple(words[:-1]), words[-1])


def parse(text: str, given: Mapping[str, str] | None = None) -> Dockerfile:
    """Read a Dockerfile; ``given`` replaces defaults of the arguments before the first stage.

    Raises:
        UnsupportedError: an instruction is not supported, or is out of place.
    """
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for instruction in _instructions(text):
        match instruction.name:
            case "FROM":
                stages.append(_stage(instruction, arguments))
            case "ARG" if not stages:
                name, _, default = instruction.text.partition("=")
                arguments[name] = (given or {}).get(name, default)
            case _ if not stages:
                raise instruction.unsupported("an instruction before FROM")
            case _:
                last = stages[-1]
                stages[-1] = Stage(last.base, last.name, (*last.instructions, instruction))
    return Dockerfile(arguments, tuple(stages))


def _stage(instruction: Instruction, arguments: Mapping[str, str]) -> Stage:
    match instruction.words(arguments):
        case [base] if not base.startswith("--"):
            return Stage(base, "", ())
        case [base, "AS", name] if not base.startswith("--"):
            return Stage(base, name, ())
        case _:
            raise instruction.unsupported(instruction.text)


def _instructions(text: str) -> Iterator[Instruction]:
    parts: list[str] = []
    began = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        began = began or number
        parts.append(line.strip().removesuffix("\\").strip())
        if line.rstrip().endswith("\\"):
            continue
        name, _, rest = " ".join(parts).partition(" ")
        instruction = Instruction(began, name.upper(), rest.strip())
        if instruction.name not in _KNOWN:
            raise UnsupportedError(f"line {began}: {name} is not supported")
        if "<<" in instruction.text:
            raise instruction.unsupported("a here-document")
        yield instruction
        parts, began = [], 0
    if parts:
        raise UnsupportedError("the last line is continued")
