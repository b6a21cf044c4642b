"""Mounts, and commands in a root folder. The caller has a mount namespace of its own."""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_PYTHON = f"python{sysconfig.get_python_version()}"
# What a root shows of this machine, read-only: programs, libraries, certificates, devices.
_SHOWN = (
    *("bin", "sbin", "lib", "lib32", "lib64", "etc", "dev", "proc"),
    *(f"usr/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "share")),
)
# Official images lack the standard library's tests and bytecode, too.
_LEFT_OUT = shutil.ignore_patterns("site-packages", "__pycache__", "test", "tests", "idle_test")


class CommandError(Exception):
    """A command failed; the message is the end of its output."""


def lay_out_base(folder: Path) -> None:
    """Copy the Python that runs this program to ``usr/local``, and make the mount points."""
    for name in _SHOWN:
        there, here = Path("/", name), folder / name
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_symlink():
            here.symlink_to(there.readlink())
        elif there.is_dir():
            here.mkdir()
    (folder / "tmp").mkdir(mode=0o1777)
    (folder / "tmp").chmod(0o1777)
    prefix, local = Path(sys.base_prefix), folder / "usr/local"
    (local / "bin").mkdir(parents=True)
    shutil.copy(prefix / "bin" / _PYTHON, local / "bin" / _PYTHON)
    for name in ("python", "python3"):
        (local / "bin" / name).symlink_to(_PYTHON)
    shutil.copytree(
        prefix / "lib" / _PYTHON, local / "lib" / _PYTHON, symlinks=True, ignore=_LEFT_OUT
    )
    (local / "lib" / _PYTHON / "site-packages").mkdir()
    for library in (prefix / "lib").glob("libpython*.so*"):
        shutil.copy(library, local / "lib", follow_symlinks=False)


def base_environment() -> dict[str, str]:
    """Return the environment of commands in that folder."""
    # A shared libpython is found where it was built, unless this variable names its new place.
    return {
        "PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LD_LIBRARY_PATH": "/usr/local/lib",
    }


def bind(source: Path, target: Path) -> None:
    """Show a folder at another place, read-only."""
    _run(["mount", "--options=bind,ro", str(source), str(target)])


def show_system(root: Path) -> None:
    """Show the folders of this machine that the base consists of."""
    for name in _SHOWN:
        target = root / name
        if target.is_dir() and not target.is_symlink():
            bind(Path("/", name), target)


@contextlib.contextmanager
def overlay(layers: Sequence[Path], *, work: Path, upper: Path | None = None) -> Iterator[Path]:
    """Show folders as one, the last on top; changes go to ``upper``, and are refused without it."""
    at = Path(tempfile.mkdtemp(dir=work))
    options = f"lowerdir={':'.join(map(str, reversed(layers)))}"
    if upper is not None:
        options += f",upperdir={upper},workdir={tempfile.mkdtemp(dir=work)}"
    _run(["mount", "--types=overlay", f"--options={options}", "overlay", str(at)])
    try:
        yield at
    finally:
        _run(["umount", "--recursive", str(at)])


def copy(source: str, target: Path) -> None:
    """Copy files or the content of a folder (``FOLDER/.``); the copies belong to root."""
    _run(
        ["cp", "--recursive", "--no-dereference", "--preserve=mode,timestamps", source, str(target)]
    )


def execute(
    root: Path,
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    user: str = "0:0",
    folder: str = "/",
) -> None:
    """Run a command in a root folder.

    Raises:
        CommandError: it failed.
    """
    chroot = ["chroot", f"--userspec={user}", "--groups=", str(root)]
    _run([*chroot, "env", f"--chdir={folder}", *command], environ)


def _run(command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        [shutil.which(command[0]) or command[0], *command[1:]],
        env=None if environ is None else dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}")


def in_namespace(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a mount namespace of its own."""
    return ["unshare", "--mount", sys.executable, "-P", "-m", module, *arguments]


def passed_environment() -> dict[str, str]:
    """Return the variables that engines pass to RUN as well: the proxies of this machine."""
    names = ("http_proxy", "https_proxy", "no_proxy")
    every = (*names, *map(str.upper, names))
    return {name: os.environ[name] for name in every if name in os.environ}
