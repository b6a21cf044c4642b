"""Kubeconfigs of the clusters that we start: their text, and the files that hold it."""

import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import yaml

from common.errors import ConfigError

CONTEXT = "sandbox"  # the name by which a kubeconfig of ours is known


def kubeconfig_text(
    url: str, authority: str, user: Mapping[str, str], *, namespace: str = "default"
) -> str:
    """A kubeconfig, as YAML; ``authority`` is PEM, ``user`` as kubeconfigs have it."""
    cluster = {"server": url, "certificate-authority-data": encoded(authority)}
    context = {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}
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
    """Text as the fields ``…-data`` hold it: base64 in one line."""
    return b64encode(text.encode()).decode()


def remove_ours(path: Path) -> None:
    """Remove a kubeconfig that an earlier sandbox left, and no other.

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
        told = " ".join(str(error).split())
        raise ConfigError(f"--kubeconfig: {path} exists and can't be replaced: {told}") from error


def write_kubeconfig(path: Path, text: str) -> None:
    """Write the file whole or not at all, for its owner's eyes only.

    Raises:
        ConfigError: the folder is missing, or not ours to write to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"--kubeconfig: {path}: {error.strerror}") from error
