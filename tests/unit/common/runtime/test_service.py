"""A process: signals, background tasks, exit codes."""

import asyncio
import contextlib
import itertools
import os
import signal

import pytest

from common.errors import ConfigError, LeadershipLostError
from common.runtime.service import every, leaves, run, serve, unless_stopped
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock


async def wait_forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_cycle_finish(number: signal.Signals) -> None:
    order: list[str] = []

    async def background() -> None:
        try:
            await wait_forever()
        finally:
            order.append("background cancelled")

    async def main(stop: asyncio.Event) -> None:
        await asyncio.sleep(0)
        os.kill(os.getpid(), number)
        await stop.wait()
        order.append("cycle finished")

    await serve(main, background=(background,))
    assert order == ["cycle finished", "background cancelled"]


async def test_a_background_task_that_fails_cancels_all_others() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    async def main(stop: asyncio.Event) -> None:
        await stop.wait()

    with pytest.raises(ExceptionGroup) as failed:
        await serve(main, background=(broken, wait_forever))
    assert failed.group_contains(ZeroDivisionError)


async def test_a_background_task_that_ends_is_a_failure() -> None:
    async def short() -> None:
        return

    async def main(stop: asyncio.Event) -> None:
        await stop.wait()

    with pytest.raises(ExceptionGroup) as failed:
        await serve(main, background=(short,))
    assert failed.group_contains(RuntimeError, match="background task ended")


async def test_a_main_that_fails_is_a_failure() -> None:
    async def main(_: asyncio.Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as failed:
        await serve(main, background=(wait_forever,))
    assert failed.group_contains(ZeroDivisionError)


def test_cycles_start_at_the_interval_and_never_overlap() -> None:
    starts: list[float] = []
    spans = iter([0.0, 30.0, 0.0, 0.0])  # the second overruns

    async def main(_clock: VirtualClock) -> None:
        stop = asyncio.Event()

        async def cycle() -> None:
            starts.append(asyncio.get_running_loop().time())
            await asyncio.sleep(next(spans))
            if len(starts) == 4:
                stop.set()

        await every(20, cycle, stop=stop)

    virtual_time.run(main)
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert gaps == pytest.approx([20, 30, 20])


async def test_a_stop_ends_the_pause_between_cycles() -> None:
    stop = asyncio.Event()
    count = 0

    async def cycle() -> None:
        nonlocal count
        count += 1
        asyncio.get_running_loop().call_soon(stop.set)

    async with asyncio.timeout(5):
        await every(3600, cycle, stop=stop)
    assert count == 1


async def test_waiting_ends_with_the_call_or_with_the_stop() -> None:
    stop = asyncio.Event()

    async def short() -> None:
        await asyncio.sleep(0)

    assert await unless_stopped(short, stop=stop)
    asyncio.get_running_loop().call_soon(stop.set)
    assert not await unless_stopped(wait_forever, stop=stop)


async def test_an_error_of_the_call_is_raised() -> None:
    async def broken() -> None:
        raise ConfigError("no")

    with pytest.raises(ExceptionGroup) as failed:
        await unless_stopped(broken, stop=asyncio.Event())
    assert failed.group_contains(ConfigError)


def test_a_program_that_returns_has_exit_code_0() -> None:
    async def main() -> None:
        await asyncio.sleep(0)

    assert run("vpa-updater", main) == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(ConfigError("unknown flag\n--x"), 2, id="an error that an operator can fix"),
        pytest.param(LeadershipLostError("lease lost"), 1, id="a lost lease"),
    ],
)
@pytest.mark.parametrize("deep", [False, True], ids=["bare", "in a task group"])
def test_an_expected_error_prints_one_line(
    error: Exception,
    code: int,
    deep: bool,  # noqa: FBT001 - a table's column
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        if not deep:
            raise error
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_forever())
            raise error

    assert run("vpa-updater", main) == code
    assert capsys.readouterr().err == f"vpa-updater: {' '.join(str(error).split())}\n"


def test_an_invalid_flag_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> object:
        raise ConfigError("unknown flag")

    assert run("vpa-updater", main) == 2  # type: ignore[arg-type] # it never returns
    assert capsys.readouterr().err == "vpa-updater: unknown flag\n"


def test_an_unexpected_error_is_raised() -> None:
    async def main() -> None:
        raise ZeroDivisionError

    with pytest.raises((ZeroDivisionError, ExceptionGroup)):
        run("vpa-updater", main)


def test_an_interrupt_at_the_start_has_exit_code_0() -> None:
    async def main() -> None:
        signal.raise_signal(signal.SIGINT)
        await wait_forever()

    with contextlib.suppress(SystemExit):
        assert run("vpa-updater", main) == 0


def test_a_hanging_cycle_is_cancelled_soon_after_the_signal() -> None:
    async def main(_clock: VirtualClock) -> float:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(60, stop.set)
        await every(10, wait_forever, stop=stop)
        return loop.time()

    assert 60 < virtual_time.run(main) < 63


async def test_the_error_of_a_cycle_is_raised() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as failed:
        await every(10, broken, stop=asyncio.Event())
    assert failed.group_contains(ZeroDivisionError)


def test_leaves_returns_the_errors_of_nested_groups() -> None:
    first, second, third = ValueError("1"), OSError("2"), KeyError("3")
    inner = ExceptionGroup("inner", [first, ExceptionGroup("innermost", [second])])
    assert leaves(ExceptionGroup("outer", [inner, third])) == [first, second, third]
