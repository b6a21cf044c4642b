"""Volumes on disk, replaced atomically like those of a kubelet."""

import posixpath
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DATA = "..data"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a volume."""

    content: bytes
    mode: int = 0o644


def inside(root: Path, path: str) -> Path:
    """Return the path on disk of a path of a container; ``..`` doesn't leave its root."""
    return root / posixpath.normpath(f"/{path}").lstrip("/")


def write_volume(folder: Path, files: Mapping[str, File]) -> bool:
    """Write exactly ``files``, by relative path; return False if they are unchanged.

    The files are in a new folder with its own name. ``..data`` is a link to it that is replaced in
    one step, and readers open links through ``..data``. The old folder is removed at once, so that
    programs that watch their files notice the change. Source: ``AtomicWriter``, k8s.io/kubernetes
    pkg/volume/util/atomic_writer.go.

    Raises:
        OSError: the disk is full, or the folder isn't writable.
        ValueError: a path leads out of the volume.
    """
    for path in files:
        parts = Path(path).parts
        if path.startswith(("/", "..")) or not parts or ".." in parts:
            raise ValueError(f"not a path inside a volume: {path}")
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / _DATA
    old = link.resolve() if link.is_symlink() else None
    if old is not None and _content(old) == dict(files):
        return False
    new = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    new.chmod(0o755)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch(mode=0o600)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    replacement = folder / "..data_tmp"
    replacement.symlink_to(new.name)
    replacement.replace(link)
    wanted = {Path(path).parts[0] for path in files}
    for name in wanted:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path(_DATA, name))
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()
    if old is not None:
        shutil.rmtree(old)
    return True


def _content(folder: Path) -> dict[str, File]:
    return {
        str(path.relative_to(folder)): File(path.read_bytes(), path.stat().st_mode & 0o777)
        for path in folder.rglob("*")
        if path.is_file()
    }
