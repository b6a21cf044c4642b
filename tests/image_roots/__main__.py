"""Execute deploy/Dockerfile without a container engine; this needs Linux and root.

``unshare --mount python -P -m image_roots FOLDER [TARGET …] --build-arg=NAME=VALUE …`` writes the
files of each target to FOLDER/TARGET, and its configuration to FOLDER/TARGET.json.
"""

import argparse
import functools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from image_roots.build import Builder
from image_roots.dockerfile import UnsupportedError, parse
from image_roots.system import CommandError

ROOT = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Execute deploy/Dockerfile without an engine.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", nargs="*", default=[""], help="the last stage by default")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args(argv)
    arguments = dict(item.split("=", 1) for item in given.build_arg)
    dockerfile = parse((ROOT / "deploy/Dockerfile").read_text(encoding="utf-8"), arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as work:
        builder = Builder(
            dockerfile,
            context=ROOT,
            given=arguments,
            work=Path(work),
            report=functools.partial(print, flush=True),
        )
        for target in given.target:
            built = builder.build(dockerfile.stage(target))
            builder.export(built, given.folder / (target or "last"))


try:
    main(sys.argv[1:])
except (UnsupportedError, CommandError) as error:
    sys.exit(f"image_roots: {error}")
