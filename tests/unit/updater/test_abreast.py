"""Acting on several items at a time: order, budgets, and who waits for whom."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from updater.abreast import Begin, act_abreast
from updater.decision import Decision, Reason, leave, wait

NOTHING = leave(Reason.NOTHING_TO_DO)
EXHAUSTED = wait(Reason.BUDGET_EXHAUSTED)


@dataclass(slots=True)
class Stage:
    """Items are ``<lane><number>``; each lane has a budget, and an answer comes when told to."""

    budgets: dict[str, int]
    refused: frozenset[str] = frozenset()  # their part of the budget is given back
    unasked: frozenset[str] = frozenset()  # nothing is to be done about them
    answers: dict[str, asyncio.Event] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    settled: dict[str, Reason] = field(default_factory=dict)

    def decide(self, item: str) -> Decision | Begin:
        if item in self.unasked:
            return NOTHING
        if not self.budgets[item[0]]:
            return EXHAUSTED

        def begin() -> Coroutine[Any, Any, None]:
            self.budgets[item[0]] -= 1
            return self.act(item)

        return begin

    async def act(self, item: str) -> None:
        self.begun.append(item)
        answer = self.answers.get(item)
        if answer is not None:
            await answer.wait()
        if item in self.refused:
            self.budgets[item[0]] += 1

    def settle(self, item: str, decision: Decision) -> None:
        self.settled[item] = decision.reason

    async def play(self, items: str) -> None:
        await act_abreast(
            items.split(), lane=lambda item: item[0], decide=self.decide, settle=self.settle
        )


async def settled_down() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_items_are_begun_in_order_as_far_as_their_lanes_go() -> None:
    stage = Stage({"a": 2, "b": 1})
    await stage.play("a1 b1 a2 a3 b2")
    assert stage.begun == ["a1", "b1", "a2"]
    assert stage.settled == dict.fromkeys(("a3", "b2"), Reason.BUDGET_EXHAUSTED)


async def test_what_is_refused_leaves_its_budget_to_the_next_in_its_lane() -> None:
    stage = Stage({"a": 1}, refused=frozenset({"a1", "a2"}))
    await stage.play("a1 a2 a3 a4")
    assert stage.begun == ["a1", "a2", "a3"]
    assert stage.settled == {"a4": Reason.BUDGET_EXHAUSTED}


async def test_a_slow_answer_holds_up_its_own_lane_alone() -> None:
    slow = asyncio.Event()
    stage = Stage({"a": 1, "b": 1}, refused=frozenset({"a1"}), answers={"a1": slow})
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.play("a1 a2 b1"))
        await settled_down()
        assert stage.begun == ["a1", "b1"]
        slow.set()
    assert stage.begun == ["a1", "b1", "a2"]


async def test_a_better_one_that_waits_is_not_overtaken_in_its_lane() -> None:
    slow = asyncio.Event()
    stage = Stage(
        {"a": 1}, refused=frozenset({"a1"}), unasked=frozenset({"a3"}), answers={"a1": slow}
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.play("a1 a2 a3 a4"))
        await settled_down()
        assert stage.settled == {}
        slow.set()
    assert stage.begun == ["a1", "a2"]
    assert stage.settled == {"a3": Reason.NOTHING_TO_DO, "a4": Reason.BUDGET_EXHAUSTED}


async def test_nothing_to_do_is_settled_at_once() -> None:
    stage = Stage({"a": 0}, unasked=frozenset({"a1"}))
    await stage.play("a1 a2")
    assert stage.settled == {"a1": Reason.NOTHING_TO_DO, "a2": Reason.BUDGET_EXHAUSTED}
