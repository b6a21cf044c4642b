"""The permitted number of lost pods of a workload, by ``lost_pods``; both sides of each bound."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from disruption_entries import (
    DEPLOYMENT,
    LAG,
    NEW,
    OLD,
    SETTLED,
    at,
    eviction,
    faults,
    member,
    rollout,
)
from disruption_judge import Judge
from disruption_log import Entry, PassBegins, PodState, ProcessBegins, VpaBegins, Wanted

# Outcomes of evictions that are ten minutes apart.

MINUTE = 60


def lost(*names: str, begin: float = 0, came: bool | None = None) -> list[Entry]:
    """Return evictions and outcomes.

    ``came``: True if the replacement has our patch; None: no replacement.
    """
    entries: list[Entry] = []
    for place, name in enumerate(names):
        seconds = (begin + 10 * place) * MINUTE
        entries += [
            PassBegins(at(seconds)),
            eviction(name, seconds),
            replace(member(name, NEW, seconds), there=False, evicted=True),
        ]
        if came is not None:
            entries.append(replace(member(f"{name}'", NEW, seconds + 5), patched=came))
        entries.append(PassBegins(at(seconds + 5 * MINUTE)))
    return entries


def right(name: str, minute: float) -> PodState:
    return replace(member(name, NEW, minute * MINUTE), patched=True)


LOST: dict[str, tuple[Sequence[Entry], int]] = {
    "three without replacement": (lost(*"abc"), 0),
    "four without replacement": (lost(*"abcd"), 1),
    "three with a wrong replacement": (lost(*"abc", came=False), 0),
    "four with a wrong replacement": (lost(*"abcd", came=False), 1),
    "eight with a correct replacement": (lost(*"abcdefgh", came=True), 0),
    "four, while a rollout shrinks the group": (
        [
            *lost(*"ab"),
            Wanted(at(19 * MINUTE), NEW, 4, DEPLOYMENT),
            Wanted(at(19 * MINUTE), OLD, 2, DEPLOYMENT),
            *lost(*"cd", begin=20),
        ],
        1,
    ),
    "a correct pod between them": (
        [*lost(*"abc"), right("r", 31), *lost(*"def", begin=40)],
        0,
    ),
    "a correct pod, and then four": (
        [*lost(*"abc"), right("r", 31), *lost(*"defg", begin=40)],
        1,
    ),
    "a wrong pod between them": (
        [*lost(*"abc"), replace(right("r", 31), patched=False), *lost("d", begin=40)],
        1,
    ),
    "one an hour later": ([*lost(*"abc"), *lost("d", begin=20 + 60)], 0),
    "one after three quarters of an hour": ([*lost(*"abc"), *lost("d", begin=20 + 45)], 1),
    "one an hour, and another one": (
        [*lost(*"abc"), *lost("d", begin=80), *lost("e", begin=90)],
        1,
    ),
    "the fourth has a replacement within three minutes": (
        [
            *lost(*"abc"),
            PassBegins(at(40 * MINUTE)),
            eviction("d", 40 * MINUTE),
            replace(member("d", NEW, 40 * MINUTE), there=False),
            right("d'", 42),
            PassBegins(at(50 * MINUTE)),
        ],
        0,
    ),
    "four at once, before any outcome": (
        [
            PassBegins(at(0)),
            *(eviction(name, 0) for name in "abcd"),
            *(replace(member(name, NEW, 0), there=False) for name in "abcd"),
            PassBegins(at(5 * MINUTE)),
        ],
        1,
    ),
    "scaled down": (
        [*lost(*"abc"), rollout(31 * MINUTE, in_progress=False, replicas=5), *lost("d", begin=40)],
        1,
    ),
    "scaled down before the losses are noticed": (
        [
            PassBegins(at(0)),
            *(eviction(name, 0) for name in "abcd"),
            *(replace(member(name, NEW, 0), there=False) for name in "abcd"),
            rollout(1 * MINUTE, in_progress=False, replicas=4),
            PassBegins(at(5 * MINUTE)),
        ],
        0,
    ),
    "a new VPA": (
        [*lost(*"abc"), VpaBegins(at(31 * MINUTE), DEPLOYMENT), *lost(*"def", begin=40)],
        0,
    ),
    "the fourth by an updater that has ended": (
        [
            *lost(*"abc"),
            PassBegins(at(40 * MINUTE)),
            replace(eviction("d", 40 * MINUTE), done_at=at(41 * MINUTE)),
            ProcessBegins(at(40.5 * MINUTE)),
            replace(member("d", NEW, 41 * MINUTE), there=False),
            PassBegins(at(50 * MINUTE)),
        ],
        0,
    ),
    "the fourth by a successor": (
        [*lost(*"abc"), ProcessBegins(at(31 * MINUTE)), *lost("d", begin=40)],
        1,
    ),
}


@pytest.mark.parametrize(("entries", "wrong"), LOST.values(), ids=LOST)
def test_wrong_evictions_after_losses(entries: Sequence[Entry], wrong: int) -> None:
    judge = Judge(1.0, LAG, counts_lost=True)
    assert len(faults(judge, [*SETTLED, *entries])) == wrong


def test_losses_count_only_if_a_webhook_patches_new_pods() -> None:
    assert not faults(Judge(1.0, LAG), [*SETTLED, *lost(*"abcd")])
