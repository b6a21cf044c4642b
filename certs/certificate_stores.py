"""The stores of the certificates: a Secret, a directory, or both.

The keys of the Secret, and the names of the files, are those that the reference reads.

Source: vertical-pod-autoscaler/pkg/admission-controller/gencerts.sh.
"""

import asyncio
import base64
import binascii
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from certs.authority import Bundle, KeyMaker, Pair
from certs.renewal import CertificatePolicy, RenewalDecision, carry_out, decide, usable
from certs.trust import CaBundleStore
from common.errors import ConfigError, ConflictError, ForbiddenError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import SECRETS

logger = logging.getLogger(__name__)

CA_KEY, CA_CERTIFICATE = "caKey.pem", "caCert.pem"
SERVER_KEY, SERVER_CERTIFICATE = "serverKey.pem", "serverCert.pem"

_KEY_MODE = 0o600
_CERTIFICATE_MODE = 0o644


class Store(Protocol):
    """A store of one bundle."""

    async def load(self) -> Bundle | None:
        """Return the stored bundle; None if there is none. Missing members are empty."""
        ...

    async def save(self, bundle: Bundle) -> None:
        """Replace the stored bundle; raise ConflictError if another client changed it."""
        ...

    def __str__(self) -> str: ...


class Directory:
    """A directory with four files; only their owner can read keys."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return f"directory {self._path}"

    async def load(self) -> Bundle | None:
        """Read the files.

        Raises:
            ConfigError: a file exists and can't be read.
        """
        return await asyncio.to_thread(self._read)

    async def save(self, bundle: Bundle) -> None:
        """Write the files, each atomically: a reader sees the old or the new content.

        Raises:
            ConfigError: the directory can't be written to.
        """
        await asyncio.to_thread(self._write, _members(bundle))

    def _read(self) -> Bundle | None:
        try:
            return _bundle({file.name: file.read_bytes() for file in self._files()})
        except OSError as error:
            raise ConfigError(f"can't read {self}: {error.strerror}") from error

    def _files(self) -> list[Path]:
        return [file for name in _NAMES if (file := self._path / name).exists()]

    def _write(self, members: Mapping[str, bytes]) -> None:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            for name, content in members.items():
                write = write_key if name in (CA_KEY, SERVER_KEY) else write_certificate
                write(self._path / name, content)
        except OSError as error:
            raise ConfigError(f"can't write {self}: {error.strerror}") from error


class Secret:
    """A Secret of type Opaque, with the same four names as keys."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._version: str | None = None  # None: the Secret didn't exist at the last read

    def __str__(self) -> str:
        return f"secret {self._namespace}/{self._name}"

    async def load(self) -> Bundle | None:
        """Read the Secret.

        Raises:
            KubeError: the API server refused or could not be reached.
        """
        try:
            there = await self._client.get(SECRETS, self._name, namespace=self._namespace)
        except NotFoundError:
            self._version = None
            return None
        self._version = there["metadata"].get("resourceVersion", "")
        return _bundle(_decoded(there.get("data") or {}))

    async def save(self, bundle: Bundle) -> None:
        """Create the Secret, or replace its content if it is unchanged since ``load``.

        Raises:
            ConflictError: another client created, changed or deleted it.
            ConfigError: it doesn't exist, and the account may not create it.
            KubeError: the API server refused or could not be reached.
        """
        data = {name: base64.b64encode(raw).decode() for name, raw in _members(bundle).items()}
        if self._version is None:
            body = {
                "apiVersion": SECRETS.api_version,
                "kind": SECRETS.kind,
                "metadata": {"name": self._name, "namespace": self._namespace},
                "type": "Opaque",
                "data": data,
            }
            await self._create(body)
            return
        try:
            await self._client.patch(
                SECRETS,
                self._name,
                {"metadata": {"resourceVersion": self._version}, "data": data},
                patch_type=PatchType.MERGE,
                namespace=self._namespace,
            )
        except NotFoundError as error:
            raise ConflictError(f"{self} is gone") from error

    async def _create(self, body: Mapping[str, Any]) -> None:
        """Create the Secret; operators may, the service account of the manifests may not."""
        try:
            await self._client.create(SECRETS, body, namespace=self._namespace)
        except ForbiddenError as error:
            raise ConfigError(
                f"{self} is not there, and this account may not create it: "
                f"apply the manifests again, which have an empty one ({error})"
            ) from error


async def ensure(
    stores: Sequence[Store],
    trust: CaBundleStore,
    policy: CertificatePolicy,
    *,
    make_key: KeyMaker,
    now: datetime,
) -> tuple[Bundle, RenewalDecision]:
    """Ensure that all stores hold the same usable bundle; return it, and why it stays for now.

    Copy the first usable bundle to the other stores; create one if there is none. Take all
    renewal steps that are due at ``now``. API servers trust a new authority before a pair that
    it signed is served. If several processes run at once, the first write wins, and the other
    processes read again.

    Raises:
        ConfigError: a directory can't be used.
        KubeError: the API server refused or could not be reached.
        ValueError: certificates for these settings can't be created.
    """
    while True:
        kept = [await store.load() for store in stores]
        there = [bundle for bundle in kept if bundle is not None]
        good = [bundle for bundle in there if usable(bundle, policy.hosts, now)]
        current = next(iter((*good, *there)), None)
        decision = decide(current, policy, now)
        if decision.step.changes:
            log_decision(decision)
        try:
            trusted = await trust.read()
            if current is not None and decision.step.trusts_what_is_kept:
                await trust.write(current.authority.certificate)
            chosen = carry_out(decision.step, current, trusted, policy, make_key=make_key, now=now)
            for store, bundle in zip(stores, kept, strict=True):
                if bundle != chosen:
                    await store.save(chosen)
                    logger.info("certificates written", extra={"store": store})
        except ConflictError:
            logger.info("another process changed the certificates; reading them again")
            continue
        if not decision.step.changes:
            return chosen, decision
        policy = replace(policy, forced=False)


def log_decision(decision: RenewalDecision) -> None:
    """Log a step and its reason."""
    logger.info("certificates", extra={"step": decision.step, "why": decision.reason})


_NAMES = (CA_KEY, CA_CERTIFICATE, SERVER_KEY, SERVER_CERTIFICATE)


def _members(bundle: Bundle) -> dict[str, bytes]:
    return {
        CA_KEY: bundle.authority.key,
        CA_CERTIFICATE: bundle.authority.certificate,
        SERVER_KEY: bundle.server.key,
        SERVER_CERTIFICATE: bundle.server.certificate,
    }


def _bundle(members: Mapping[str, bytes]) -> Bundle | None:
    if not members:
        return None
    ca_key, ca_certificate, server_key, server_certificate = (
        members.get(name, b"") for name in _NAMES
    )
    return Bundle(
        authority=Pair(key=ca_key, certificate=ca_certificate),
        server=Pair(key=server_key, certificate=server_certificate),
    )


def _decoded(data: Mapping[str, Any]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in _NAMES:
        try:
            found[name] = base64.b64decode(data[name], validate=True)
        except (KeyError, TypeError, binascii.Error):
            continue
    return found


def write_certificate(file: Path, content: bytes) -> None:
    """Replace a file that everyone can read; raise OSError if it can't be written."""
    _replace(file, content, _CERTIFICATE_MODE)


def write_key(file: Path, content: bytes) -> None:
    """Replace a file that only its owner can read; raise OSError if it can't be written."""
    _replace(file, content, _KEY_MODE)


def _replace(file: Path, content: bytes, mode: int) -> None:
    """Write a temporary file and rename it, so that no reader sees a partial file."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, mode)
            stream.write(content)
        Path(temporary).replace(file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
