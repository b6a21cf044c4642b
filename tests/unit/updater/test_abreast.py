"""Acting on several items at a time: order, budgets, and who waits for whom."""

import asyncio
import gc
import itertools
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from common.runtime.object_errors import ObjectErrors
from updater.abreast import Begin, act_abreast
from updater.decision import Decision, Reason, leave, wait

NOTHING = leave(Reason.NOTHING_TO_DO)
EXHAUSTED = wait(Reason.BUDGET_EXHAUSTED)
UNVERIFIED = wait(Reason.REPLACEMENT_UNVERIFIED)
SUSPENDED = wait(Reason.ACTUATION_SUSPENDED)


@dataclass(slots=True)
class Stage:
    """Items are ``<lane><number>``; each lane has a budget, and an answer comes when told to.

    All lanes have an allowance together, if they are told so.
    """

    budgets: dict[str, int]
    allowance: int = 1000
    short: Decision = UNVERIFIED
    refused: frozenset[str] = frozenset()  # their part of the budget is given back
    unasked: frozenset[str] = frozenset()  # nothing is to be done about them
    answers: dict[str, asyncio.Event] = field(default_factory=dict)
    breaks: Mapping[str, str] = field(default_factory=dict)  # at which step an item does
    begun: list[str] = field(default_factory=list)
    settled: dict[str, Reason] = field(default_factory=dict)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    errors: ObjectErrors = field(init=False)

    def __post_init__(self) -> None:
        self.errors = ObjectErrors("updater", self.registry)

    def decide(self, item: str) -> Decision | Begin:
        self._step("decide", item)
        if item in self.unasked:
            return NOTHING
        if not self.budgets[item[0]]:
            return EXHAUSTED
        if not self.allowance:
            return self.short

        def begin() -> Coroutine[Any, Any, None]:
            self._step("begin", item)
            self.budgets[item[0]] -= 1
            self.allowance -= 1
            return self.act(item)

        return begin

    async def act(self, item: str) -> None:
        self.begun.append(item)
        answer = self.answers.get(item)
        if answer is not None:
            await answer.wait()
        self._step("act", item)
        if item in self.refused:
            self.budgets[item[0]] += 1
            self.allowance += 1

    def _step(self, step: str, item: str) -> None:
        if self.breaks.get(item) == step:
            raise ZeroDivisionError(item)

    def settle(self, item: str, decision: Decision) -> None:
        self._step("settle", item)
        self.settled[item] = decision.reason

    async def play(self, items: str) -> None:
        await act_abreast(
            items.split(),
            lane=lambda item: item[0],
            decide=self.decide,
            settle=self.settle,
            around=lambda item: self.errors.around("test", "Item", "", item),
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


async def test_others_have_their_turn_while_many_are_looked_at() -> None:
    """A VPA of a large DaemonSet has thousands of pods, and health is asked for meanwhile."""
    items = [f"a{number}" for number in range(2000)]
    stage = Stage({"a": 0}, unasked=frozenset(items))
    turns = []

    async def others() -> None:
        while len(stage.settled) < len(items):
            turns.append(len(stage.settled))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        group.create_task(stage.play(" ".join(items)))
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 200


async def test_nothing_to_do_is_settled_at_once() -> None:
    stage = Stage({"a": 0}, unasked=frozenset({"a1"}))
    await stage.play("a1 a2")
    assert stage.settled == {"a1": Reason.NOTHING_TO_DO, "a2": Reason.BUDGET_EXHAUSTED}


@pytest.mark.parametrize("short", [UNVERIFIED, SUSPENDED], ids=lambda each: each.reason.value)
async def test_an_allowance_of_all_goes_to_the_next_whatever_its_lane(short: Decision) -> None:
    stage = Stage(dict.fromkeys("abc", 9), allowance=1, short=short, refused=frozenset({"a1"}))
    await stage.play("a1 b1 a2 c1")
    assert stage.begun == ["a1", "b1"]
    assert stage.settled == dict.fromkeys(("a2", "c1"), short.reason)


async def test_who_waits_for_an_allowance_waits_for_an_answer_in_any_lane() -> None:
    slow = asyncio.Event()
    stage = Stage(
        dict.fromkeys("ab", 9),
        allowance=2,
        refused=frozenset({"a1"}),
        answers={"a1": slow, "b1": asyncio.Event()},
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.play("a1 b1 b2 b3"))
        await settled_down()
        assert stage.begun == ["a1", "b1"]
        assert stage.settled == {}
        slow.set()
        await settled_down()
        assert stage.begun == ["a1", "b1", "b2"]
        stage.answers["b1"].set()
    assert stage.settled == {"b3": Reason.REPLACEMENT_UNVERIFIED}


async def test_who_waits_for_its_lane_keeps_no_other_from_an_allowance() -> None:
    """a2 waits for the allowance at first; when that is back, its lane is used up."""
    slow, slower = asyncio.Event(), asyncio.Event()
    stage = Stage(
        {"a": 2, "b": 1, "c": 1},
        allowance=2,
        refused=frozenset({"b1"}),
        answers={"a1": slower, "b1": slow},
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.play("a1 b1 a2 c1"))
        await settled_down()
        stage.budgets["a"] = 0
        slow.set()
        await settled_down()
        assert stage.begun == ["a1", "b1", "c1"]
        slower.set()
    assert stage.settled == {"a2": Reason.BUDGET_EXHAUSTED}


async def test_everything_ends_whatever_is_short() -> None:
    lanes = "abcdefgh"
    items = [f"{lane}{number}" for number in range(9) for lane in lanes]
    refused = frozenset(items[::3])
    for allowance in range(7):
        stage = Stage(dict.fromkeys(lanes, 3), allowance=allowance, refused=refused)
        await stage.play(" ".join(items))
        assert {*stage.begun, *stage.settled} == {*items}
        assert len(stage.begun) + len(stage.settled) == len(items)
        assert len(set(stage.begun) - refused) == allowance


async def test_the_end_may_come_between_a_decision_and_its_call() -> None:
    """Nothing is left that was made up and never begun: Python would warn of it."""
    answer = asyncio.Event()
    stage = Stage({"a": 1}, refused=frozenset({"a1"}), answers={"a1": answer})
    playing = asyncio.create_task(stage.play("a1 a2"))
    await settled_down()
    answer.set()
    playing.cancel()  # a2 is decided on as the answer comes, and the end is before its begin
    await asyncio.wait((playing,))
    gc.collect()
    assert stage.begun == ["a1"]


@pytest.mark.parametrize("step", ["decide", "begin", "act", "settle"])
async def test_an_item_that_breaks_a_step_costs_itself_alone(step: str) -> None:
    unasked = frozenset({"a2"} if step == "settle" else ())
    stage = Stage({"a": 5, "b": 5}, breaks={"a2": step}, unasked=unasked)
    await stage.play("a1 a2 b1 a3")
    others = ["a1", "b1", "a3"]
    assert [item for item in stage.begun if item != "a2"] == others
    counted = stage.registry.get_sample_value("vpa_updater_object_errors_total", {"stage": "test"})
    assert counted == 1
