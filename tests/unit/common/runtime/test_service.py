"""The life of a process: signals, background tasks, exit codes."""

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


async def for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_cycle_finish(number: signal.Signals) -> None:
    told: list[str] = []

    async def background() -> None:
        try:
            await for_ever()
        finally:
            told.append("background cancelled")

    async def main(stop: asyncio.Event) -> None:
        await asyncio.sleep(0)
        os.kill(os.getpid(), number)
        await stop.wait()
        told.append("cycle finished")

    await serve(main, background=(background,))
    assert told == ["cycle finished", "background cancelled"]


async def test_a_background_task_that_fails_takes_everything_with_it() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    async def main(stop: asyncio.Event) -> None:
        await stop.wait()

    with pytest.raises(ExceptionGroup) as failed:
        await serve(main, background=(broken, for_ever))
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
        await serve(main, background=(for_ever,))
    assert failed.group_contains(ZeroDivisionError)


async def test_cycles_start_in_step_and_never_overlap() -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    starts: list[float] = []
    spans = iter([0.0, 0.03, 0.0, 0.0])  # the second overruns

    async def cycle() -> None:
        starts.append(loop.time())
        await asyncio.sleep(next(spans))
        if len(starts) == 4:
            stop.set()

    await every(0.02, cycle, stop=stop)
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert len(starts) == 4
    assert all(gap >= 0.019 for gap in gaps)
    assert gaps[1] >= 0.029


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


async def test_waiting_ends_with_what_is_waited_for_or_with_the_stop() -> None:
    stop = asyncio.Event()

    async def short() -> None:
        await asyncio.sleep(0)

    assert await unless_stopped(short, stop=stop)
    asyncio.get_running_loop().call_soon(stop.set)
    assert not await unless_stopped(for_ever, stop=stop)


async def test_what_fails_while_it_is_waited_for_is_not_lost() -> None:
    async def broken() -> None:
        raise ConfigError("no")

    with pytest.raises(ExceptionGroup) as failed:
        await unless_stopped(broken, stop=asyncio.Event())
    assert failed.group_contains(ConfigError)


def test_a_program_that_ends_well_has_exit_code_0() -> None:
    async def main() -> None:
        await asyncio.sleep(0)

    assert run("vpa-updater", main) == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(ConfigError("unknown flag\n--x"), 2, id="what an operator can put right"),
        pytest.param(LeadershipLostError("lease lost"), 1, id="a lost lease"),
    ],
)
@pytest.mark.parametrize("deep", [False, True], ids=["bare", "in a task group"])
def test_an_error_of_ours_is_one_line(
    error: Exception,
    code: int,
    deep: bool,  # noqa: FBT001 - a table's column
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        if not deep:
            raise error
        async with asyncio.TaskGroup() as group:
            group.create_task(for_ever())
            raise error

    assert run("vpa-updater", main) == code
    assert capsys.readouterr().err == f"vpa-updater: {' '.join(str(error).split())}\n"


def test_flags_that_are_wrong_count_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> object:
        raise ConfigError("unknown flag")

    assert run("vpa-updater", main) == 2  # type: ignore[arg-type] # it never gets to return
    assert capsys.readouterr().err == "vpa-updater: unknown flag\n"


def test_a_bug_is_not_hidden() -> None:
    async def main() -> None:
        raise ZeroDivisionError

    with pytest.raises((ZeroDivisionError, ExceptionGroup)):
        run("vpa-updater", main)


def test_an_interrupt_before_anything_began_is_a_good_end() -> None:
    async def main() -> None:
        signal.raise_signal(signal.SIGINT)
        await for_ever()

    with contextlib.suppress(SystemExit):
        assert run("vpa-updater", main) == 0


def test_a_cycle_that_hangs_is_given_up_soon_after_the_signal() -> None:
    async def main(_clock: VirtualClock) -> float:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(60, stop.set)
        await every(10, for_ever, stop=stop)
        return loop.time()

    assert 60 < virtual_time.run(main) < 63


async def test_a_cycle_that_fails_ends_everything() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as failed:
        await every(10, broken, stop=asyncio.Event())
    assert failed.group_contains(ZeroDivisionError)


def test_what_went_wrong_in_task_groups_within_task_groups_is_found() -> None:
    first, second, third = ValueError("1"), OSError("2"), KeyError("3")
    inner = ExceptionGroup("inner", [first, ExceptionGroup("innermost", [second])])
    assert leaves(ExceptionGroup("outer", [inner, third])) == [first, second, third]
