"""Memory windows that run on in the next process (Q4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from common.api.autoscaling import CheckpointStatus
from common.errors import DecodeError
from common.labels import EVERYTHING, NOTHING, Selector, from_map
from recommender.checkpoints.running_windows import (
    MOST,
    NONE,
    annotation,
    decode_windows,
    encode_windows,
    windows_of,
)
from recommender.model.column_table import Ints
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.running import RunningWindow, SavedWindows, WindowRestorer, running_windows
from recommender.model.timestamps import NEVER, instant
from recommender.model.usage import Usage

START = datetime(2026, 1, 1, tzinfo=UTC)
WEB, ALL = VpaKey("shop", "web"), VpaKey("shop", "all")
MIB = 1 << 20
UID = "9f86d081-884c-7d65-9a2f-eaa0c55ad015"


def at(hours: float) -> int:
    return instant(START + timedelta(hours=hours))


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def facts(name: str = "web-1", uid: str = UID) -> PodFacts:
    key = PodKey("shop", name)
    return PodFacts(key=key, uid=uid, labels={"app": "web"}, active=True, containers=("app",))


class Process:
    """A recommender's model, from a start to a crash."""

    def __init__(
        self,
        *vpas: VpaKey,
        pods: Sequence[PodFacts] = (facts(),),
        selector: Selector = EVERYTHING,
    ) -> None:
        self.usage = Usage()
        for key in vpas or (WEB,):
            self.usage.put_autoscaler(key, selector, ())
        for pod in pods:
            self.usage.put_pod(pod, at(0))

    def row(self, name: str = "web-1") -> Ints:
        return ints(self.usage.pods[PodKey("shop", name)].containers["app"])

    def sees(self, hour: float, mib: int, name: str = "web-1") -> None:
        self.usage.add_memory(self.row(name), ints(at(hour)), ints(mib * MIB), at(hour))

    def oom(self, hour: float, mib: int) -> None:
        self.usage.add_oom(
            PodKey("shop", "web-1"), "app", at=at(hour), request=mib * MIB, now=at(hour)
        )

    def saved(self, hour: float) -> dict[VpaKey, Any]:
        """What the checkpoints of its VPAs say: history and running windows."""
        found = {}
        peaks = self.usage.open_peaks(at(hour))
        for key in self.usage.autoscalers:
            groups = self.usage.groups(key)
            history = self.usage.without_peaks(groups, peaks).save(ints(0))[0]
            (windows,) = running_windows(self.usage, groups, peaks)
            found[key] = history, windows
        return found

    def goes_on_from(self, saved: dict[VpaKey, Any], hour: float) -> "Process":
        restorer = WindowRestorer(self.usage)
        for key, (history, windows) in saved.items():
            self.usage.load_history(key, "app", history)
            text = encode_windows(windows)
            restorer.resume([SavedWindows(key, "app", decode_windows(text))], at(hour))
        return self

    def weights(self, key: VpaKey = WEB) -> dict[int, float]:
        """What counts of memory by bucket, as of the start."""
        (group,) = self.usage.groups(key)
        merged = self.usage.aggregates.merged([group.rows]).memory
        days = (int(merged.reference[0]) - at(0)) / (at(24) - at(0))
        return {
            bucket: merged.weights[0, bucket] * 2**days
            for bucket in np.flatnonzero(merged.weights[0]).tolist()
        }


@dataclass(frozen=True, kw_only=True)
class Life:
    id: str
    before: Sequence[tuple[float, int]]  # hour, MiB; negative: an OOM kill at so much requested
    after: Sequence[tuple[float, int]] = ()


LIVES = [
    Life(id="nothing more comes", before=[(0, 100), (2, 500)]),
    Life(id="less comes", before=[(0, 500)], after=[(4, 100)]),
    Life(id="more comes in the same window", before=[(0, 500)], after=[(4, 600)]),
    Life(id="the window ends on time", before=[(0, 500)], after=[(23, 100), (24.5, 300), (47, 90)]),
    Life(id="the window ended meanwhile", before=[(0, 500)], after=[(30, 100), (49, 200)]),
    Life(id="windows before count as before", before=[(0, 700), (25, 300)], after=[(26, 310)]),
    Life(id="an OOM kill counts on", before=[(0, 500), (1, -600)], after=[(4, 550), (5, 800)]),
    Life(id="kills are raised from usage", before=[(0, 500), (1, -600)], after=[(4, -600)]),
    Life(id="nothing was there", before=[], after=[(4, 100)]),
]  # fmt: skip


def live(process: Process, life: Sequence[tuple[float, int]]) -> None:
    for hour, mib in life:
        if mib < 0:
            process.oom(hour, -mib)
        else:
            process.sees(hour, mib)


@pytest.mark.parametrize("case", LIVES, ids=lambda case: case.id)
@pytest.mark.parametrize("crashes", [1, 5])
def test_a_restart_goes_on_with_running_windows_q4(case: Life, crashes: int) -> None:
    undisturbed, process = Process(), Process()
    for each in (undisturbed, process):
        live(each, case.before)
    crash = 1 + max((hour for hour, _ in case.before), default=2.0)
    for _ in range(crashes):
        process = Process().goes_on_from(process.saved(crash), crash)
    for each in (undisturbed, process):
        live(each, case.after)
    assert process.weights() == pytest.approx(undisturbed.weights(), rel=1e-3)


def test_what_several_vpas_carry_counts_once() -> None:
    process = Process(WEB, ALL)
    live(process, [(0, 500), (1, -600)])
    want = process.weights()
    process = Process(WEB, ALL).goes_on_from(process.saved(3), 3)
    for key in (WEB, ALL):
        assert process.weights(key) == pytest.approx(want, rel=1e-3)
    process.sees(4, 900)
    assert len(process.weights()) == 1


def test_the_peak_of_a_pod_that_is_gone_stays_and_is_never_replaced() -> None:
    before = Process()
    before.sees(0, 500)
    want = before.weights()
    other = facts("web-2", uid="another")
    process = Process(pods=[other]).goes_on_from(before.saved(3), 3)
    assert process.weights() == pytest.approx(want, rel=1e-3)
    process.sees(4, 900, "web-2")
    assert sum(process.weights().values()) > 1.9


def test_a_pod_that_came_back_under_its_name_starts_over_q33() -> None:
    before = Process()
    before.sees(0, 500)
    process = Process(pods=[facts(uid="another")]).goes_on_from(before.saved(3), 3)
    assert process.usage.containers.window_end[process.row()] == NEVER


def test_a_window_that_began_here_takes_over_the_higher_peak_and_counts_once() -> None:
    """A VPA whose pods have been watched all the time, under another recommender's care."""
    other = Process()
    live(other, [(0, 500), (1, -600)])
    process = Process()
    process.sees(2, 300)
    process.goes_on_from(other.saved(3), 3)
    assert len(process.weights()) == 1
    containers = process.usage.containers
    assert containers.oom_peak[process.row()] == 720 * MIB
    process.sees(4, 900)
    assert len(process.weights()) == 1


def test_a_window_that_ends_too_late_is_none_of_ours() -> None:
    process = Process()
    restorer = WindowRestorer(process.usage)
    windows = [RunningWindow(int(UID.replace("-", "")[:15], 16), at(2400), 9, 0, 0)]
    restorer.resume([SavedWindows(WEB, "app", windows)], at(0))
    assert restorer.ignored == 1
    assert process.usage.containers.window_end[process.row()] == NEVER


AWAY = [
    pytest.param(NOTHING, id="the target is gone"),
    pytest.param(from_map({"app": "db"}), id="the selector is of other pods"),
]


@pytest.mark.parametrize("selector", AWAY)
@pytest.mark.parametrize("crashes", [0, 1, 5])
def test_windows_of_pods_that_a_vpa_matched_before_outlive_restarts(
    selector: Selector, crashes: int
) -> None:
    undisturbed, process = Process(), Process()
    for each in (undisturbed, process):
        live(each, [(0, 500), (1, -600)])
    # Its container is known by name from then on, whatever the VPA matches.
    process = Process().goes_on_from(process.saved(1), 1)
    process.usage.put_autoscaler(WEB, selector, ())
    for crash in range(crashes):
        saved = process.saved(2 + crash)
        process = Process(selector=selector).goes_on_from(saved, 2 + crash)
    process.usage.put_autoscaler(WEB, EVERYTHING, ())
    for each in (undisturbed, process):
        live(each, [(9, 550)])
    assert process.weights() == pytest.approx(undisturbed.weights(), rel=1e-3)


def test_no_window_of_pods_matched_before_stays_once_it_has_ended_or_they_are_gone() -> None:
    process = Process()
    process.sees(0, 500)
    process.usage.load_history(WEB, "app", process.saved(1)[WEB][0])
    process.usage.put_autoscaler(WEB, NOTHING, ())
    assert [window.peak for window in process.saved(2)[WEB][1]] == [500 * MIB]
    assert process.saved(25)[WEB][1] == []
    process.usage.remove_pod(PodKey("shop", "web-1"))
    assert process.saved(2)[WEB][1] == []
    process.usage.put_autoscaler(WEB, EVERYTHING, ())
    assert process.usage.autoscalers[WEB].former == set()


# As text


WINDOW = RunningWindow(pod=0x9F86D081884C7D6, end=at(24), peak=5, oom_peak=7, last_oom=at(1))
STATUS = CheckpointStatus(last_update_time=START, version="v3", total_samples_count=9)


def test_the_annotation_is_what_the_page_says() -> None:
    assert annotation(encode_windows([WINDOW]), STATUS) == (
        '{"lastUpdateTime":"2026-01-01T00:00:00Z","totalSamplesCount":9,'
        '"windows":[["9f86d081884c7d6",1767312000,5,7,1767229200]]}'
    )


def test_windows_as_text_and_back() -> None:
    windows = [WINDOW, replace_pod(1), RunningWindow(0, at(3), 0, 0, 0)]
    assert decode_windows(encode_windows(windows)) == sorted(windows)
    assert encode_windows(windows) == encode_windows(windows[::-1])
    assert encode_windows([]) == NONE


def replace_pod(number: int, peak: int = 5) -> RunningWindow:
    return WINDOW._replace(pod=number, peak=peak)


def test_of_too_many_the_highest_are_kept_in_a_bounded_text() -> None:
    windows = [replace_pod(number, peak=10**14 - 7 * number) for number in range(2 * MOST)]
    text = encode_windows(windows)
    assert decode_windows(text) == windows[:MOST]
    assert len(text) < 40_000


@pytest.mark.parametrize(
    ("status", "belongs"),
    [
        pytest.param(STATUS, True, id="its own"),
        pytest.param(
            CheckpointStatus(last_update_time=START + timedelta(seconds=1), total_samples_count=9),
            False,
            id="written later",
        ),
        pytest.param(
            CheckpointStatus(last_update_time=START, total_samples_count=10),
            False,
            id="more samples",
        ),
    ],
)
def test_windows_belong_to_one_status(status: CheckpointStatus, *, belongs: bool) -> None:
    windows = encode_windows([WINDOW])
    assert windows_of(annotation(windows, STATUS), status) == (windows if belongs else None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"7",
        b"[" * 5000,
        b"[" * 5000 + b"]" * 5000,
        b"[[]]",
        b'[["9f86d081884c7d6",1,1,1]]',
        b'[["9f86d081884c7d6",1,1,1,1,1]]',
        b'[["9F86D081884C7D6",1,1,1,1]]',
        b'[["9f86d081884c7d",1,1,1,1]]',
        b'[["9f86d081884c7d6",-1,1,1,1]]',
        b'[["9f86d081884c7d6",1,-1,1,1]]',
        b'[["9f86d081884c7d6",1,1e30,1,1]]',
        b'[["9f86d081884c7d6",1,NaN,1,1]]',
        b'[["9f86d081884c7d6",99999999999999,1,1,1]]',
        b'[["9f86d081884c7d6","1",1,1,1]]',
    ],
)
def test_garbage_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_windows(text)
