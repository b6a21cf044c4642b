"""``sandbox.virtual_time``: sleeps take no time and end in order; sockets and threads work."""

import asyncio
import contextlib
import socket
import threading
import time
from datetime import timedelta

from sandbox import virtual_time
from sandbox.virtual_time import EPOCH, VirtualClock


def test_an_hour_of_sleep_takes_milliseconds() -> None:
    async def main(clock: VirtualClock) -> timedelta:
        await asyncio.sleep(3600)
        return clock.now() - EPOCH

    begun = time.perf_counter()
    assert virtual_time.run(main) == timedelta(hours=1)
    assert time.perf_counter() - begun < 1


def test_timers_fire_in_order_and_each_at_its_own_time() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def note(name: str, after: float) -> None:
            await asyncio.sleep(after)
            seen.append((name, (clock.now() - EPOCH).total_seconds()))

        await asyncio.gather(note("late", 86_400), note("soon", 0.5), note("later", 7200))
        return seen

    assert virtual_time.run(main) == [("soon", 0.5), ("later", 7200.0), ("late", 86_400.0)]


def test_loopback_traffic_takes_no_virtual_time() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await asyncio.sleep(1)  # the server's own sleep takes virtual time
            writer.write(line)
        writer.close()

    async def main(clock: VirtualClock) -> timedelta:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(101):  # would time out if time advanced during the transfer
            for number in range(100):
                line = b"%d\n" % number
                writer.write(line)
                assert await reader.readline() == line
        writer.close()
        await writer.wait_closed()
        server.close()
        return clock.now() - EPOCH

    assert virtual_time.run(main) == timedelta(seconds=100)


def test_bytes_that_the_kernel_delays_are_waited_for() -> None:
    async def halting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            for byte in line:  # one small segment after the other
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
        writer.close()

    async def main(clock: VirtualClock) -> timedelta:
        # Its protocol isn't named, so asyncio leaves Nagle's algorithm on.
        listening = socket.create_server(("127.0.0.1", 0))
        server = await asyncio.start_server(halting, sock=listening)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        async with asyncio.timeout(1):
            for _ in range(5):
                writer.write(b"abc\n")
                assert await reader.readline() == b"abc\n"
        writer.close()
        await writer.wait_closed()
        server.close()
        return clock.now() - EPOCH

    assert virtual_time.run(main) == timedelta()


def test_time_does_not_advance_while_a_thread_works() -> None:
    async def main(clock: VirtualClock) -> timedelta:
        release = threading.Event()
        asyncio.get_running_loop().call_later(3600, lambda: None)
        threading.Timer(0.02, release.set).start()
        async with asyncio.timeout(60):
            await asyncio.to_thread(release.wait)
        return clock.now() - EPOCH

    assert virtual_time.run(main) == timedelta()


def test_an_idle_timeout_ends_at_its_time() -> None:
    async def main(clock: VirtualClock) -> timedelta:
        try:
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        except TimeoutError:
            return clock.now() - EPOCH
        raise AssertionError("the wait ended by itself")

    assert virtual_time.run(main) == timedelta(seconds=30)


def test_a_task_that_waits_until_a_time_is_not_woken_before() -> None:
    """Otherwise time would not advance: the task would wait again, and wake immediately."""
    due = 0.1 + 0.2  # a rounding error after 0.3

    async def wait(_clock: VirtualClock) -> int:
        loop = asyncio.get_running_loop()
        loop.call_at(0.3, lambda: None)
        woken = 0
        while loop.time() < due and woken < 100:
            woken += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await asyncio.Event().wait()
        return woken

    assert virtual_time.run(wait) == 1
