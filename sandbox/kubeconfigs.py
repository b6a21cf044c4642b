"""Kubeconfigs of clusters that the project starts: their text and their files."""

import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import yaml

from common.errors import ConfigError

CONTEXT = "sandbox"  # marks a kubeconfig that this module wrote


def kubeconfig_text(url: str, authority: str, user: Mapping[str, str]) -> str:
    """Return a kubeconfig as YAML. ``authority`` is PEM, ``user`` as in a kubeconfig."""
    cluster = {"server": url, "certificate-authority-data": encoded(authority)}
    context = {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": CONTEXT, "user": dict(user)}],
            "contexts": [{"name": CONTEXT, "context": context}],
            "current-context": CONTEXT,
        }
    )


def encoded(text: str) -> str:
    """Return text as the fields ``…-data`` hold it: base64 in one line."""
    return b64encode(text.encode()).decode()


def remove_ours(path: Path) -> None:
    """Remove a kubeconfig that an earlier sandbox left, and no other file.

    Raises:
        ConfigError: the file isn't a sandbox's, or can't be read.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("current-context") != CONTEXT:
            raise ConfigError(f"--kubeconfig: {path} exists and is not a sandbox's; not replaced")
        path.unlink()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"--kubeconfig: {path} exists and can't be replaced: {reason}") from error


def write_kubeconfig(path: Path, text: str) -> None:
    """Write the file atomically, readable by its owner only.

    Raises:
        ConfigError: the folder is missing or not writable.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"--kubeconfig: {path}: {error.strerror}") from error
