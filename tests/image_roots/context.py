"""The build context: the files that ``.dockerignore`` allows."""

import re
import shutil
from pathlib import Path

from image_roots.dockerfile import UnsupportedError


def copy_context(folder: Path, target: Path) -> None:
    """Copy what an engine would be sent.

    ``.dockerignore`` has to be an allow-list: ``*``, then ``!NAME`` for each allowed file or
    folder, then ``**/PATTERN`` for names that are left out of them.

    Raises:
        UnsupportedError: it has another form.
    """
    allowed, excluded = read_ignore_file((folder / ".dockerignore").read_text(encoding="utf-8"))
    ignore = shutil.ignore_patterns(*excluded)
    target.mkdir()
    for name in allowed:
        source = folder / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, target / name)


def read_ignore_file(text: str) -> tuple[list[str], list[str]]:
    """Return the allowed names, and the patterns that are left out everywhere.

    Raises:
        UnsupportedError: the file is no allow-list.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line and line[0] != "#"]
    if lines[:1] != ["*"]:
        raise UnsupportedError(".dockerignore: the first pattern is not *")
    for line in lines[1:]:
        if not re.fullmatch(r"![\w.-]+|\*\*/[^/]+", line):
            raise UnsupportedError(f".dockerignore: {line} is not supported")
    allowed = [line[1:] for line in lines[1:] if line[0] == "!"]
    return allowed, [line[3:] for line in lines[1:] if line[0] == "*"]
