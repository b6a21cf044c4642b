"""The webhook asks itself, and says why when the answer isn't right."""

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
from common.runtime.web import WebServer
from component import free_port
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


async def problem(asking: Caller) -> str:
    with pytest.raises(SelfCheckError) as caught:
        await asking.ask()
    return str(caught.value)


async def test_a_right_answer(good: authority.Bundle, tmp_path: Path) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, good.authority.certificate).ask()


async def test_it_counts_neither_as_a_pod_nor_as_time_spent(
    good: authority.Bundle, tmp_path: Path
) -> None:
    harness = Harness()
    async with serving(harness.app, tmp_path, good) as port:
        await caller(port, good.authority.certificate).ask()
    counts = {
        sample.name: sample.value
        for family in harness.registry.collect()
        for sample in family.samples
        if sample.name.endswith(("_total", "_count"))
    }
    assert counts
    assert set(counts.values()) == {0.0}


async def test_where_somebody_else_registers_the_name_is_not_looked_at(
    good: authority.Bundle, other: authority.Bundle, tmp_path: Path
) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, good.authority.certificate, name="").ask()
        told = await problem(caller(port, other.authority.certificate, name=""))
        assert told.startswith("certificate refused: ")


async def test_without_a_client_ca_nobody_vouches_for_the_certificate(
    good: authority.Bundle, tmp_path: Path
) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, b"", name="another.example").ask()


async def test_any_certificate_of_the_bundle_is_an_anchor(
    good: authority.Bundle, other: authority.Bundle, tmp_path: Path
) -> None:
    """As for Go: the server's own certificate, too, and two authorities that overlap."""
    async with serving(Harness().app, tmp_path, good) as port:
        await caller(port, good.server.certificate).ask()
        both = other.authority.certificate + good.authority.certificate
        await caller(port, both).ask()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(
            lambda asking, _: replace(asking, name="vpa-webhook.kube-system.svc"),
            "certificate refused: Hostname mismatch",
            id="another name",
        ),
        pytest.param(
            lambda asking, other: replace(asking, authority=lambda: other),
            "certificate refused: ",
            id="another authority",
        ),
        pytest.param(
            lambda asking, _: replace(asking, port=free_port()),
            "no connection: ",
            id="nobody listens",
        ),
    ],
)
async def test_what_an_api_server_would_not_accept_is_told(
    good: authority.Bundle,
    other: authority.Bundle,
    tmp_path: Path,
    change: Callable[[Caller, bytes], Caller],
    why: str,
) -> None:
    async with serving(Harness().app, tmp_path, good) as port:
        asking = change(caller(port, good.authority.certificate), other.authority.certificate)
        assert (await problem(asking)).startswith(why)


async def test_each_check_judges_the_certificate_that_is_shown_then(
    good: authority.Bundle, other: authority.Bundle, tmp_path: Path
) -> None:
    async with (  # of both the files are read at the start
        serving(Harness().app, tmp_path, good) as right,
        serving(Harness().app, tmp_path, other) as wrong,
    ):
        asking = caller(right, good.authority.certificate)
        for _ in range(2):
            await asking.ask()
            told = await problem(replace(asking, port=wrong))
            assert told.startswith("certificate refused: ")


async def test_half_a_ca_file_is_none(good: authority.Bundle) -> None:
    told = await problem(caller(free_port(), good.authority.certificate[:99]))
    assert told.startswith("client CA can't be used: ")


async def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    bundle = new_bundle(valid_from=SystemClock().now() - timedelta(days=3), days=1)
    async with serving(Harness().app, tmp_path, bundle) as port:
        told = await problem(caller(port, bundle.authority.certificate))
    assert told == "certificate refused: certificate has expired"


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
        pytest.param(silence, "no answer within 0.2 seconds", id="silence"),
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
async def test_a_wrong_answer_is_none(
    good: authority.Bundle, tmp_path: Path, app: Any, why: str
) -> None:
    async with serving(app, tmp_path, good) as port:
        told = await problem(caller(port, good.authority.certificate, timeout=0.2))
    assert why in told


async def test_a_listener_that_does_not_speak_tls_is_no_webhook(good: authority.Bundle) -> None:
    async def greet(_reader: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        told = await problem(caller(port, good.authority.certificate))
    assert told.startswith(("no TLS: ", "no connection: "))


# What several checks are worth


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
        pytest.param("-++-++", "right", id="flapping starts the count anew"),
        pytest.param("+-+-+-+-+-", "wrong", id="every other check fails"),
    ],
)
def test_the_lease_waits_for_several_right_checks_after_a_wrong_one(checks: str, want: str) -> None:
    standing = CheckStreak()
    for check in checks:
        standing = standing.after(right=check == "+")
    told = "right" if standing.right else "wrong"
    assert told + " and steady" * standing.steady == want


@pytest.mark.parametrize(
    ("checks", "evicts"),
    [
        pytest.param("+" * 30, True, id="all right"),
        pytest.param("++++++-" * 5, True, id="a hiccup a minute"),
        pytest.param("+++-" * 8, True, id="every fourth check fails"),
        pytest.param("++-" * 10, False, id="every third"),
        pytest.param("+-" * 15, False, id="every other"),
        pytest.param("+" * 10 + "-" * 20, False, id="broken for good"),
        pytest.param("-" * 20 + "+" * 10, True, id="repaired"),
    ],
)
def test_whether_the_updater_evicts_at_the_end_with_the_flags_defaults(
    checks: str, evicts: object
) -> None:
    interval, timeout = 10, 60  # seconds
    standing, renewed = CheckStreak(), -timeout
    for number, check in enumerate(checks):
        standing = standing.after(right=check == "+")
        if standing.steady:
            renewed = interval * number
    assert (interval * len(checks) - renewed < timeout) is evicts


@dataclass
class Scripted:
    """A caller whose answers are known: None is right, a text is why not."""

    answers: list[str | None]
    asked: int = field(default=0)

    async def ask(self) -> None:
        self.asked += 1
        if (why := self.answers.pop(0)) is not None:
            raise SelfCheckError(why)


def checking(asking: Any, conditions: Mapping[str, Callable[[], bool]] | None = None) -> SelfCheck:
    return SelfCheck(asking, conditions or {}, AdmissionMetrics(CollectorRegistry()))


async def test_each_reason_is_told_once_and_so_is_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    asking = Scripted([None, "expired", "expired", "slow", None, None, None, None])
    check = checking(asking)
    seen = [(await check.passed(), check.right) for _ in range(8)]
    assert [steady for steady, _ in seen] == [True, False, False, False, False, False, True, True]
    assert [right for _, right in seen] == [True, False, False, False, True, True, True, True]
    told = [(one.levelname, one.getMessage(), getattr(one, "error", "")) for one in caplog.records]
    assert told == [
        ("WARNING", "self-check failed", "expired"),
        ("WARNING", "self-check failed", "slow"),
        ("INFO", "self-check passes again", ""),
    ]


async def test_nobody_is_asked_while_a_condition_does_not_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asking = Scripted([None])
    holds = {"caches": True, "certificate": False}
    check = checking(asking, {name: partial(holds.__getitem__, name) for name in holds})
    assert not await check.passed()
    assert asking.asked == 0
    assert [vars(one)["error"] for one in caplog.records] == ["not ready: certificate"]
    holds["certificate"] = True
    await check.passed()
    assert asking.asked == 1


async def test_checks_are_counted_by_their_result() -> None:
    registry = CollectorRegistry()
    check = SelfCheck(Scripted([None, "slow", None]), {}, AdmissionMetrics(registry))  # type: ignore[arg-type]  # asked alike
    for _ in range(3):
        await check.passed()
    name = "vpa_admission_controller_self_checks_total"
    assert registry.get_sample_value(name, {"result": "right"}) == 2
    assert registry.get_sample_value(name, {"result": "wrong"}) == 1
