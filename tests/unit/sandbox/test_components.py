"""Components of a cluster: they run as long as the cluster, and must not end before."""

import asyncio

import pytest

from sandbox.components import Component, running_components


class RunningComponent:
    """Runs until it is cancelled; ``runs`` is True meanwhile."""

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


async def test_components_run_as_long_as_the_context() -> None:
    first, second = RunningComponent(), RunningComponent()
    async with running_components([first.run, second.run]):
        await asyncio.sleep(0)
        assert (first.runs, second.runs) == (True, True)
    assert (first.runs, second.runs) == (False, False)


async def raising(members: list[Component], error: Exception) -> None:
    async with running_components(members):
        await asyncio.sleep(0)
        raise error


async def test_an_error_of_the_context_is_raised_unchanged_and_cancels_the_components() -> None:
    component = RunningComponent()
    with pytest.raises(ValueError, match="mine"):
        await raising([component.run], ValueError("mine"))
    assert not component.runs


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        pytest.param(fails, OSError, id="a component that fails"),
        pytest.param(returns, RuntimeError, id="a component that returns"),
    ],
)
async def test_a_component_that_ends_cancels_the_context(
    broken: Component, error: type[Exception]
) -> None:
    component = RunningComponent()
    with pytest.raises(ExceptionGroup) as raised:
        async with running_components([component.run, broken]):
            await asyncio.Event().wait()
    assert raised.group_contains(error)
    assert not component.runs
