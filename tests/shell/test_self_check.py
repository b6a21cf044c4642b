"""The webhook's self-check: it calls itself, and reports the reason of a failure."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from admission.metrics import AdmissionMetrics
from admission.pod_reviews import VpaMatch
from admission.self_check import Caller, CheckStreak, SelfCheck, SelfCheckError
from admission.tls import KeyPair
from builders import recommendation, vpa
from certificates import new_bundle, write_pair
from certs import authority
from common.runtime.clock import SystemClock
from common.runtime.web_server import WebServer
from demo.processes import free_port
from webhook_harness import FakeCluster, Harness

WEB = vpa(recommendations=(recommendation(),))


@pytest.fixture(scope="module")
def good() -> authority.Bundle:
    return new_bundle()


@pytest.fixture(scope="module")
def other() -> authority.Bundle:
    return new_bundle()


@asynccontextmanager
async def serving(app: Any, folder: Path, bundle: authority.Bundle) -> AsyncIterator[int]:
    pair = KeyPair(*write_pair(folder, bundle.server))
    server = WebServer(
        app, "127.0.0.1:0", name="webhook", ssl_context_factory=lambda *_: pair.context
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.run())
        yield server.port
        running.cancel()


def caller(port: int, bundle: bytes, *, name: str = "127.0.0.1", timeout: float = 5.0) -> Caller:
    return Caller(port=port, name=name, authority=lambda: bundle, timeout=timeout)


async def problem(check: Caller) -> str:
    with pytest.raises(SelfCheckError) as caught:
        await check.request_review()
    return str(caught.value)


async def test_a_correct_response(good: authority.Bundle, tmp_path: Path) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, good.authority.certificate).request_review()


async def test_it_is_counted_neither_as_a_pod_nor_in_the_latency(
    good: authority.Bundle, tmp_path: Path
) -> None:
    harness = Harness()
    async with serving(harness.app, tmp_path, good) as port:
        await caller(port, good.authority.certificate).request_review()
    counts = {
        sample.name: sample.value
        for family in harness.registry.collect()
        for sample in family.samples
        if sample.name.endswith(("_total", "_count"))
    }
    assert counts
    assert set(counts.values()) == {0.0}


async def test_the_name_is_not_checked_if_another_program_registers(
    good: authority.Bundle, other: authority.Bundle, tmp_path: Path
) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, good.authority.certificate, name="").request_review()
        error = await problem(caller(port, other.authority.certificate, name=""))
        assert error.startswith("certificate refused: ")


async def test_without_a_client_ca_the_certificate_is_not_verified(
    good: authority.Bundle, tmp_path: Path
) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, b"", name="another.example").request_review()


async def test_any_certificate_of_the_bundle_is_an_anchor(
    good: authority.Bundle, other: authority.Bundle, tmp_path: Path
) -> None:
    """As in Go, also the server's own certificate, and each of two overlapping authorities."""
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, good.server.certificate).request_review()
        both = other.authority.certificate + good.authority.certificate
        await caller(port, both).request_review()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(
            lambda check, _: replace(check, name="vpa-webhook.kube-system.svc"),
            "certificate refused: Hostname mismatch",
            id="another name",
        ),
        pytest.param(
            lambda check, other: replace(check, authority=lambda: other),
            "certificate refused: ",
            id="another authority",
        ),
        pytest.param(
            lambda check, _: replace(check, port=free_port()),
            "no connection: ",
            id="no listener",
        ),
    ],
)
async def test_a_certificate_that_api_servers_would_refuse_is_reported(
    good: authority.Bundle,
    other: authority.Bundle,
    tmp_path: Path,
    change: Callable[[Caller, bytes], Caller],
    why: str,
) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        check = change(caller(port, good.authority.certificate), other.authority.certificate)
        assert (await problem(check)).startswith(why)


async def test_each_check_verifies_the_current_certificate(
    good: authority.Bundle, other: authority.Bundle, tmp_path: Path
) -> None:
    async with (  # both files are read at the start
        serving(Harness().app, tmp_path, good) as right,
        serving(Harness().app, tmp_path, other) as wrong,
    ):
        check = caller(right, good.authority.certificate)
        for _ in range(2):
            await check.request_review()
            error = await problem(replace(check, port=wrong))
            assert error.startswith("certificate refused: ")


async def test_a_truncated_ca_file_is_an_error(good: authority.Bundle) -> None:
    error = await problem(caller(free_port(), good.authority.certificate[:99]))
    assert error.startswith("client CA can't be used: ")


async def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    bundle = new_bundle(valid_from=SystemClock().now() - timedelta(days=3), days=1)
    async with serving(Harness().app, tmp_path, bundle) as port:
        error = await problem(caller(port, bundle.authority.certificate))
    assert error == "certificate refused: certificate has expired"


async def silence(_scope: object, _receive: object, _send: object) -> None:
    await asyncio.Event().wait()


async def teapot(_scope: object, _receive: object, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def nonsense(_scope: object, _receive: object, send: Any) -> None:
    headers = [(b"x-review-outcome", b"no_vpa")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


@pytest.mark.parametrize(
    ("app", "why"),
    [
        pytest.param(teapot, "answered 418", id="an HTTP error"),
        pytest.param(nonsense, "not answered as one", id="no review"),
        pytest.param(
            Harness(FakeCluster(KeyError("bug"))).app, "not answered as one", id="a bug of ours"
        ),
        pytest.param(
            Harness(FakeCluster(synced=False)).app, "not answered as one", id="caches still fill"
        ),
        pytest.param(Harness(FakeCluster(VpaMatch(WEB))).app, "not answered as one", id="a patch"),
    ],
)
async def test_a_wrong_response_fails_the_check(
    good: authority.Bundle, tmp_path: Path, app: Any, why: str
) -> None:
    async with serving(app, tmp_path, good) as port:
        error = await problem(caller(port, good.authority.certificate))
    assert why in error


async def test_silence_fails_the_check(good: authority.Bundle, tmp_path: Path) -> None:
    async with serving(silence, tmp_path, good) as port:
        error = await problem(caller(port, good.authority.certificate, timeout=0.2))
    assert error == "no answer within 0.2 seconds"


async def test_a_listener_without_tls_fails_the_check(good: authority.Bundle) -> None:
    async def greet(_reader: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        error = await problem(caller(port, good.authority.certificate))
    assert error.startswith(("no TLS: ", "no connection: "))


# The condition after several checks


@pytest.mark.parametrize(
    ("checks", "want"),
    [
        pytest.param("", "wrong", id="none yet"),
        pytest.param("+", "right and steady", id="the first is right"),
        pytest.param("-", "wrong", id="the first is wrong"),
        pytest.param("+-", "wrong", id="a wrong one"),
        pytest.param("+-+", "right", id="right again, once"),
        pytest.param("+-++", "right", id="twice"),
        pytest.param("+-+++", "right and steady", id="three times"),
        pytest.param("-++-++", "right", id="flapping resets the count"),
        pytest.param("+-+-+-+-+-", "wrong", id="every other check fails"),
    ],
)
def test_the_lease_waits_for_several_right_checks_after_a_wrong_one(checks: str, want: str) -> None:
    standing = CheckStreak()
    for check in checks:
        standing = standing.after(right=check == "+")
    error = "right" if standing.right else "wrong"
    assert error + " and steady" * standing.steady == want


@pytest.mark.parametrize(
    ("checks", "evicts"),
    [
        pytest.param("+" * 30, True, id="all right"),
        pytest.param("++++++-" * 5, True, id="one failure a minute"),
        pytest.param("+++-" * 8, True, id="every fourth check fails"),
        pytest.param("++-" * 10, False, id="every third"),
        pytest.param("+-" * 15, False, id="every other"),
        pytest.param("+" * 10 + "-" * 20, False, id="broken for good"),
        pytest.param("-" * 20 + "+" * 10, True, id="repaired"),
    ],
)
def test_the_updater_evicts_or_not_with_the_default_flags(checks: str, evicts: object) -> None:
    interval, timeout = 10, 60  # seconds
    standing, renewed = CheckStreak(), -timeout
    for number, check in enumerate(checks):
        standing = standing.after(right=check == "+")
        if standing.steady:
            renewed = interval * number
    assert (interval * len(checks) - renewed < timeout) is evicts


@dataclass
class Scripted:
    """A caller with given results: None is success, a text is an error."""

    answers: list[str | None]
    requests: int = field(default=0)

    async def request_review(self) -> None:
        self.requests += 1
        if (why := self.answers.pop(0)) is not None:
            raise SelfCheckError(why)


def checking(
    caller: Any,
    conditions: Mapping[str, Callable[[], bool]] | None = None,
    registry: CollectorRegistry | None = None,
) -> SelfCheck:
    return SelfCheck(caller, conditions or {}, AdmissionMetrics(registry or CollectorRegistry()))


async def test_each_reason_and_its_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    check = checking(Scripted([None, "expired", "expired", "slow", None, None, None, None]))
    seen = [(await check.passed(), check.right) for _ in range(8)]
    assert [steady for steady, _ in seen] == [True, False, False, False, False, False, True, True]
    assert [right for _, right in seen] == [True, False, False, False, True, True, True, True]
    lines = [(one.levelname, one.getMessage(), getattr(one, "error", "")) for one in caplog.records]
    assert lines == [
        ("WARNING", "self-check failed", "expired"),
        ("WARNING", "self-check failed", "slow"),
        ("INFO", "self-check passes again", ""),
    ]


async def test_no_check_is_sent_while_a_condition_is_false(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caller = Scripted([None])
    holds = {"caches": True, "certificate": False}
    check = checking(caller, {name: partial(holds.__getitem__, name) for name in holds})
    assert not await check.passed()
    assert caller.requests == 0
    assert [vars(one)["error"] for one in caplog.records] == ["not ready: certificate"]
    holds["certificate"] = True
    await check.passed()
    assert caller.requests == 1


async def test_checks_are_counted_by_their_result() -> None:
    registry = CollectorRegistry()
    check = checking(Scripted([None, "slow", None]), registry=registry)
    for _ in range(3):
        await check.passed()
    name = "vpa_admission_controller_self_checks_total"
    assert registry.get_sample_value(name, {"result": "right"}) == 2
    assert registry.get_sample_value(name, {"result": "wrong"}) == 1
