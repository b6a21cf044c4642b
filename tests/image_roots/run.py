"""Run the entry point of a root folder, as in a container of the restricted Pod Security Standard.

``unshare --mount python -P -m image_roots.run ROOT -- ARGUMENTS``: everything is mounted read-only,
and the process has the image's user, group and environment, and no other.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from image_roots import system


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Run the entry point of a root folder.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--mount", action="append", default=[], metavar="FOLDER:INSIDE")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--entrypoint", help="a program and its flags in place of the image's")
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args(argv)
    root: Path = given.root
    config = json.loads(root.with_suffix(".json").read_text(encoding="utf-8"))
    mounts = [(Path(source), root / inside.lstrip("/")) for source, inside in _split(given.mount)]
    for _, target in mounts:
        target.mkdir(parents=True, exist_ok=True)  # as container runtimes do
    system.bind(root, root)
    system.show_system(root)
    for source, target in mounts:
        system.bind(source, target)
    os.chroot(root)
    os.chdir(config["WorkingDir"])
    user, group = map(int, config["User"].split(":"))
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    program = given.entrypoint.split() if given.entrypoint else config["Entrypoint"]
    command = [*program, *given.arguments]
    environ = dict(item.split("=", 1) for item in (*config["Env"], *given.env))
    os.execve(command[0], command, environ)  # without a shell, as an engine does


def _split(mounts: Sequence[str]) -> list[list[str]]:
    return [mount.rsplit(":", 1) for mount in mounts]


if __name__ == "__main__":
    main(sys.argv[1:])
