"""Where ``certs.store`` keeps certificates, and when it keeps what is there."""

import base64
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certs import store
from certs.authority import Bundle, Pair
from common.errors import ConfigError, ConflictError, NotFoundError
from common.kube.client import PatchType


def bundle(name: str) -> Bundle:
    """A bundle to tell apart; what is in it is the authority's business."""
    return Bundle(
        authority=Pair(key=b"ca key " + name.encode(), certificate=b"ca " + name.encode()),
        server=Pair(key=b"key " + name.encode(), certificate=b"server " + name.encode()),
    )


OLD, NEW = bundle("old"), bundle("new")


def fine(_bundle: Bundle) -> str | None:
    return None


def only(good: Bundle) -> Callable[[Bundle], str | None]:
    return lambda found: None if found == good else "it is another one"


def new() -> Bundle:
    return NEW


def none() -> Bundle:
    raise AssertionError("nothing has to be created")


class FakeClient:
    """Keeps one Secret, and counts the writes."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.there: dict[str, Any] | None = (
            None if data is None else {"metadata": {"resourceVersion": "1"}, "data": data}
        )
        self.writes = 0
        self.meanwhile: Bundle | None = None  # what another process writes just before us

    async def get(self, _endpoint: object, name: str, *, namespace: str) -> dict[str, Any]:
        if self.there is None:
            raise NotFoundError(f"{namespace}/{name}")
        return self.there

    async def create(
        self, _endpoint: object, body: dict[str, Any], *, namespace: str
    ) -> dict[str, Any]:
        assert namespace == body["metadata"]["namespace"]
        self._interfere()
        if self.there is not None:
            raise ConflictError("exists")
        return self._keep(body["data"])

    async def patch(
        self,
        _endpoint: object,
        _name: str,
        patch: dict[str, Any],
        *,
        patch_type: PatchType,
        namespace: str,
    ) -> dict[str, Any]:
        assert (patch_type, namespace) == (PatchType.MERGE, "vpa")
        self._interfere()
        assert self.there is not None
        if patch["metadata"]["resourceVersion"] != self.there["metadata"]["resourceVersion"]:
            raise ConflictError("changed")
        return self._keep(patch["data"])

    def _interfere(self) -> None:
        if self.meanwhile is not None:
            self._keep(encoded(self.meanwhile))
            self.meanwhile = None

    def _keep(self, data: dict[str, str]) -> dict[str, Any]:
        self.writes += 1
        self.there = {"metadata": {"resourceVersion": f"w{self.writes}"}, "data": data}
        return self.there


def encoded(kept: Bundle) -> dict[str, str]:
    members = {
        "caKey.pem": kept.authority.key,
        "caCert.pem": kept.authority.certificate,
        "serverKey.pem": kept.server.key,
        "serverCert.pem": kept.server.certificate,
    }
    return {name: base64.b64encode(raw).decode() for name, raw in members.items()}


def secret(client: Any) -> store.Secret:
    return store.Secret(client, "vpa", "vpa-tls-certs")


async def test_a_directory_gets_four_files_and_keys_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "certs"
    await store.ensure([store.Directory(folder)], problem_with=fine, create=new)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == {
        "caKey.pem": 0o600,
        "caCert.pem": 0o644,
        "serverKey.pem": 0o600,
        "serverCert.pem": 0o644,
    }
    assert await store.Directory(folder).load() == NEW


async def test_a_good_pair_is_kept(tmp_path: Path) -> None:
    folder = store.Directory(tmp_path)
    await folder.save(OLD)
    assert await store.ensure([folder], problem_with=fine, create=none) == OLD


async def test_a_bad_pair_is_replaced(tmp_path: Path) -> None:
    folder = store.Directory(tmp_path)
    await folder.save(OLD)
    assert await store.ensure([folder], problem_with=only(NEW), create=new) == NEW
    assert await folder.load() == NEW


async def test_half_a_pair_is_none(tmp_path: Path) -> None:
    folder = store.Directory(tmp_path)
    await folder.save(OLD)
    (tmp_path / "serverKey.pem").unlink()
    assert await folder.load() is None


async def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="can't write directory"):
        await store.Directory(tmp_path / "file").save(NEW)


async def test_a_secret_is_created() -> None:
    client = FakeClient()
    await store.ensure([secret(client)], problem_with=fine, create=new)
    assert client.there is not None
    assert client.there["data"] == encoded(NEW)


async def test_a_good_secret_is_not_written() -> None:
    client = FakeClient(encoded(OLD))
    assert await store.ensure([secret(client)], problem_with=fine, create=none) == OLD
    assert client.writes == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="empty"),
        pytest.param({"caKey.pem": "!!!"}, id="no base64"),
        pytest.param({"ca": "", "cert": "", "key": ""}, id="another maker's keys"),
    ],
)
async def test_a_secret_of_another_shape_is_filled(data: dict[str, str]) -> None:
    client = FakeClient(data)
    assert await store.ensure([secret(client)], problem_with=fine, create=new) == NEW


@pytest.mark.parametrize("data", [None, encoded(OLD)], ids=["created", "changed"])
async def test_of_two_processes_the_faster_wins(data: dict[str, str] | None) -> None:
    client = FakeClient(data)
    theirs = bundle("theirs")
    client.meanwhile = theirs
    kept = await store.ensure([secret(client)], problem_with=only(theirs), create=new)
    assert kept == theirs
    assert client.there is not None
    assert client.there["data"] == encoded(theirs)


async def test_a_directory_follows_the_secret(tmp_path: Path) -> None:
    client, folder = FakeClient(encoded(OLD)), store.Directory(tmp_path)
    await folder.save(NEW)
    await store.ensure([secret(client), folder], problem_with=fine, create=none)
    assert await folder.load() == OLD
    assert client.writes == 0


async def test_a_bad_secret_follows_the_directory(tmp_path: Path) -> None:
    client, folder = FakeClient(encoded(NEW)), store.Directory(tmp_path)
    await folder.save(OLD)
    await store.ensure([secret(client), folder], problem_with=only(OLD), create=none)
    assert client.there is not None
    assert client.there["data"] == encoded(OLD)
