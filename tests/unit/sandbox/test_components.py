"""Parts of a cluster: they run as long as it does, and never end by themselves."""

import asyncio

import pytest

from sandbox.components import Component, running_components


class Part:
    """Runs for ever, and knows whether it does."""

    def __init__(self) -> None:
        self.runs = False

    async def run(self) -> None:
        self.runs = True
        try:
            await asyncio.Event().wait()
        finally:
            self.runs = False


async def fails() -> None:
    raise OSError("no room")


async def returns() -> None:
    pass


async def test_parts_run_as_long_as_the_context() -> None:
    first, second = Part(), Part()
    async with running_components([first.run, second.run]):
        await asyncio.sleep(0)
        assert (first.runs, second.runs) == (True, True)
    assert (first.runs, second.runs) == (False, False)


async def raising(parts: list[Component], error: Exception) -> None:
    async with running_components(parts):
        await asyncio.sleep(0)
        raise error


async def test_an_error_of_the_context_is_raised_as_it_is_and_ends_the_parts() -> None:
    part = Part()
    with pytest.raises(ValueError, match="mine"):
        await raising([part.run], ValueError("mine"))
    assert not part.runs


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        pytest.param(fails, OSError, id="a part that fails"),
        pytest.param(returns, RuntimeError, id="a part that returns"),
    ],
)
async def test_a_part_that_ends_takes_everything_with_it(
    broken: Component, error: type[Exception]
) -> None:
    part = Part()
    with pytest.raises(ExceptionGroup) as raised:
        async with running_components([part.run, broken]):
            await asyncio.Event().wait()
    assert raised.group_contains(error)
    assert not part.runs
