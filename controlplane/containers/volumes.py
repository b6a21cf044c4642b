"""The contents of a pod's volumes, read periodically from the API server."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from common.errors import KubeError
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from common.runtime.clock import Clock
from controlplane.containers.folders import File, write_volume
from controlplane.containers.site import Place
from controlplane.containers.sources import Reference, SourceKind, Sources
from controlplane.containers.variables import field_of
from sandbox.kubelet.wire import RunnablePod

SERVICE_ACCOUNTS = Endpoint("", "v1", "serviceaccounts", "ServiceAccount", dict[str, Any])

TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_HOUR = 3600
_OLD = 0.8  # share of a token's life after which it is renewed
_OLDEST = timedelta(hours=24)  # the age at which it is renewed in any case
_DEFAULT_MODE = 0o644

_Json = Mapping[str, Any]


class VolumeError(Exception):
    """A volume can't be written; the sentence names it."""


@dataclass(slots=True)
class _Token:
    text: str
    renew_at: datetime
    expires: datetime


@dataclass(slots=True, kw_only=True)
class Volumes:
    """The volumes of one pod, below ``folder``."""

    pod: RunnablePod
    place: Place
    folder: Path
    client: KubeClient
    clock: Clock
    sources: Sources
    _tokens: dict[tuple[str, int], _Token] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Return the path of a volume."""
        return self.folder / name

    async def write(self) -> None:
        """Write the present data of the API server.

        Raises:
            VolumeError: a required object is missing, or a source isn't supported.
            KubeError: the API server failed.
        """
        for volume in self.pod.spec.volumes or ():
            name = volume["name"]
            try:
                files = await self._files(volume)
                if files is None:
                    self.path(name).mkdir(parents=True, exist_ok=True)
                else:
                    await asyncio.to_thread(write_volume, self.path(name), files)
            except (ValueError, OSError, LookupError) as error:
                raise VolumeError(
                    f'MountVolume.SetUp failed for volume "{name}": {error}'
                ) from error

    async def _files(self, volume: _Json) -> dict[str, File] | None:
        """Return the files of one volume; None for an empty folder that belongs to the pod."""
        match volume:
            case {"emptyDir": _}:
                return None
            case {"secret": source}:
                name = source.get("secretName", "")
                return await self._object(SourceKind.SECRET, name, source, _mode(source))
            case {"configMap": source}:
                name = source.get("name", "")
                return await self._object(SourceKind.CONFIG_MAP, name, source, _mode(source))
            case {"downwardAPI": source}:
                return dict(self._fields(source.get("items") or (), _mode(source)))
            case {"projected": source}:
                return await self._projected(source, _mode(source))
        kinds = ", ".join(sorted(volume.keys() - {"name"}))
        raise ValueError(f"volumes of this kind aren't supported: {kinds}")

    async def _projected(self, source: _Json, mode: int) -> dict[str, File]:
        files: dict[str, File] = {}
        for one in source.get("sources") or ():
            match one:
                case {"serviceAccountToken": token}:
                    text = await self._token(token)
                    files[token["path"]] = File(text.encode(), 0o600)
                case {"secret": secret}:
                    name = secret.get("name", "")
                    files.update(await self._object(SourceKind.SECRET, name, secret, mode))
                case {"configMap": config_map}:
                    name = config_map.get("name", "")
                    files.update(await self._object(SourceKind.CONFIG_MAP, name, config_map, mode))
                case {"downwardAPI": downward}:
                    files.update(self._fields(downward.get("items") or (), mode))
                case _:
                    kinds = ", ".join(sorted(one))
                    raise ValueError(f"projections of this kind aren't supported: {kinds}")
        return files

    async def _object(
        self, kind: SourceKind, name: str, source: _Json, mode: int
    ) -> dict[str, File]:
        data = await self.sources.find(Reference(kind, name))
        if data is None and not source.get("optional"):
            raise LookupError(f'{kind.lower()} "{name}" not found')
        return _chosen({} if data is None else data.files, source, mode)

    def _fields(self, items: Iterable[_Json], mode: int) -> Iterable[tuple[str, File]]:
        for item in items:
            reference = item.get("fieldRef")
            if reference is None:
                raise ValueError(f"{item.get('path')}: only fieldRef is supported")
            text = field_of(self.pod, reference.get("fieldPath", ""), self.place)
            yield item["path"], File(text.encode(), item.get("mode", mode))

    async def _token(self, source: _Json) -> str:
        """Return a token of the pod's service account.

        It is renewed after 80 % of its life, and after a day. A token that can't be renewed is used
        until it expires. Source: ``Manager.GetServiceAccountToken``, k8s.io/kubernetes
        pkg/kubelet/token/token_manager.go.
        """
        audience, seconds = source.get("audience", ""), source.get("expirationSeconds", _HOUR)
        known, now = self._tokens.get((audience, seconds)), self.clock.now()
        if known is not None and now < known.renew_at:
            return known.text
        try:
            new = await self._new_token(audience, seconds, now)
        except KubeError:
            if known is None or now >= known.expires:
                raise
            return known.text
        self._tokens[audience, seconds] = new
        return new.text

    async def _new_token(self, audience: str, seconds: int, now: datetime) -> _Token:
        meta = self.pod.metadata
        account = self.pod.spec.service_account_name or "default"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta.name,
                    "uid": meta.uid,
                },
            },
        }
        path = SERVICE_ACCOUNTS.object(account, meta.namespace, "token")
        answer = msgspec.json.decode(await self.client.request("POST", path, body=request))
        status = answer["status"]
        expires = datetime.fromisoformat(status["expirationTimestamp"])
        life = max(timedelta(), expires - now)
        return _Token(str(status["token"]), now + min(life * _OLD, _OLDEST), expires)


def _mode(source: _Json) -> int:
    return int(source.get("defaultMode", _DEFAULT_MODE))


def _chosen(data: Mapping[str, bytes], source: _Json, mode: int) -> dict[str, File]:
    """Return all keys, or those of ``items`` at their paths."""
    items = source.get("items")
    if not items:
        return {key: File(content, mode) for key, content in data.items()}
    files = {}
    for item in items:
        if item["key"] in data:
            files[item["path"]] = File(data[item["key"]], item.get("mode", mode))
        elif not source.get("optional"):
            raise LookupError(f"references non-existent config key: {item['key']}")
    return files
