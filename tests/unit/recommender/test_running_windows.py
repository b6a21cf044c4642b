"""Memory windows that continue in the next process (Q4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from common.api.autoscaling import CheckpointStatus
from common.errors import DecodeError
from common.labels import EVERYTHING, NOTHING, Selector, from_map
from recommender.checkpoints.window_annotation import (
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
from recommender.model.running_windows import (
    RunningWindow,
    SavedWindows,
    WindowRestorer,
    running_windows,
)
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

    def observe(self, hour: float, mib: int, name: str = "web-1") -> None:
        self.usage.add_memory(self.row(name), ints(at(hour)), ints(mib * MIB), at(hour))

    def oom(self, hour: float, mib: int) -> None:
        self.usage.add_oom(
            PodKey("shop", "web-1"), "app", at=at(hour), request=mib * MIB, now=at(hour)
        )

    def saved(self, hour: float) -> dict[VpaKey, Any]:
        """Return the contents of its VPAs' checkpoints: history and running windows."""
        found = {}
        peaks = self.usage.open_peaks(at(hour))
        for key in self.usage.autoscalers:
            groups = self.usage.groups(key)
            history = self.usage.without_peaks(groups, peaks).save(ints(0))[0]
            (windows,) = running_windows(self.usage, groups, peaks)
            found[key] = history, windows
        return found

    def resume_from(self, saved: dict[VpaKey, Any], hour: float) -> "Process":
        restorer = WindowRestorer(self.usage)
        for key, (history, windows) in saved.items():
            self.usage.load_history(key, "app", history)
            text = encode_windows(windows)
            restorer.resume([SavedWindows(key, "app", decode_windows(text))], at(hour))
        return self

    def weights(self, key: VpaKey = WEB) -> dict[int, float]:
        """Return the memory weights by bucket, at the time of START."""
        (group,) = self.usage.groups(key)
        merged = self.usage.aggregates.merged([group.rows]).memory
        days = (int(merged.reference[0]) - at(0)) / (at(24) - at(0))
        return {
            bucket: merged.weights[0, bucket] * 2**days
            for bucket in np.flatnonzero(merged.weights[0]).tolist()
        }


@dataclass(frozen=True, kw_only=True)
class RestartCase:
    id: str
    before: Sequence[tuple[float, int]]  # hour, MiB; negative: an OOM kill with this request
    after: Sequence[tuple[float, int]] = ()


RESTARTS = [
    RestartCase(id="no more samples", before=[(0, 100), (2, 500)]),
    RestartCase(id="a lower sample", before=[(0, 500)], after=[(4, 100)]),
    RestartCase(id="a higher sample in the same window", before=[(0, 500)], after=[(4, 600)]),
    RestartCase(
        id="the window ends on time", before=[(0, 500)], after=[(23, 100), (24.5, 300), (47, 90)]
    ),
    RestartCase(
        id="the window ended before the restart", before=[(0, 500)], after=[(30, 100), (49, 200)]
    ),
    RestartCase(id="earlier windows count", before=[(0, 700), (25, 300)], after=[(26, 310)]),
    RestartCase(
        id="an OOM kill still counts", before=[(0, 500), (1, -600)], after=[(4, 550), (5, 800)]
    ),
    RestartCase(id="kills are raised from usage", before=[(0, 500), (1, -600)], after=[(4, -600)]),
    RestartCase(id="no samples before", before=[], after=[(4, 100)]),
]


def replay(process: Process, life: Sequence[tuple[float, int]]) -> None:
    for hour, mib in life:
        if mib < 0:
            process.oom(hour, -mib)
        else:
            process.observe(hour, mib)


@pytest.mark.parametrize("case", RESTARTS, ids=lambda case: case.id)
@pytest.mark.parametrize("crashes", [1, 5])
def test_a_restart_continues_running_windows_q4(case: RestartCase, crashes: int) -> None:
    undisturbed, process = Process(), Process()
    for each in (undisturbed, process):
        replay(each, case.before)
    crash = 1 + max((hour for hour, _ in case.before), default=2.0)
    for _ in range(crashes):
        process = Process().resume_from(process.saved(crash), crash)
    for each in (undisturbed, process):
        replay(each, case.after)
    assert process.weights() == pytest.approx(undisturbed.weights(), rel=1e-3)


def test_a_window_in_checkpoints_of_several_vpas_counts_once() -> None:
    process = Process(WEB, ALL)
    replay(process, [(0, 500), (1, -600)])
    want = process.weights()
    process = Process(WEB, ALL).resume_from(process.saved(3), 3)
    for key in (WEB, ALL):
        assert process.weights(key) == pytest.approx(want, rel=1e-3)
    process.observe(4, 900)
    assert len(process.weights()) == 1


def test_the_peak_of_a_deleted_pod_stays() -> None:
    before = Process()
    before.observe(0, 500)
    want = before.weights()
    other = facts("web-2", uid="another")
    process = Process(pods=[other]).resume_from(before.saved(3), 3)
    assert process.weights() == pytest.approx(want, rel=1e-3)
    process.observe(4, 900, "web-2")
    assert sum(process.weights().values()) > 1.9


def test_a_new_pod_of_the_same_name_starts_a_new_window_q33() -> None:
    before = Process()
    before.observe(0, 500)
    process = Process(pods=[facts(uid="another")]).resume_from(before.saved(3), 3)
    assert process.usage.containers.window_end[process.row()] == NEVER


def test_a_window_of_this_process_takes_over_the_higher_peak_and_counts_once() -> None:
    """Another recommender wrote the VPA while this one observed its pods."""
    other = Process()
    replay(other, [(0, 500), (1, -600)])
    process = Process()
    process.observe(2, 300)
    process.resume_from(other.saved(3), 3)
    assert len(process.weights()) == 1
    containers = process.usage.containers
    assert containers.oom_peak[process.row()] == 720 * MIB
    process.observe(4, 900)
    assert len(process.weights()) == 1


def test_a_window_that_ends_too_late_is_ignored() -> None:
    process = Process()
    restorer = WindowRestorer(process.usage)
    windows = [RunningWindow(int(UID.replace("-", "")[:15], 16), at(2400), 9, 0, 0)]
    restorer.resume([SavedWindows(WEB, "app", windows)], at(0))
    assert restorer.ignored == 1
    assert process.usage.containers.window_end[process.row()] == NEVER


UNMATCHED = [
    pytest.param(NOTHING, id="the target is gone"),
    pytest.param(from_map({"app": "db"}), id="the selector matches other pods"),
]


@pytest.mark.parametrize("selector", UNMATCHED)
@pytest.mark.parametrize("crashes", [0, 1, 5])
def test_windows_of_pods_that_a_vpa_matched_before_survive_restarts(
    selector: Selector, crashes: int
) -> None:
    undisturbed, process = Process(), Process()
    for each in (undisturbed, process):
        replay(each, [(0, 500), (1, -600)])
    # From now on the container has history, whatever the VPA matches.
    process = Process().resume_from(process.saved(1), 1)
    process.usage.put_autoscaler(WEB, selector, ())
    for crash in range(crashes):
        saved = process.saved(2 + crash)
        process = Process(selector=selector).resume_from(saved, 2 + crash)
    process.usage.put_autoscaler(WEB, EVERYTHING, ())
    for each in (undisturbed, process):
        replay(each, [(9, 550)])
    assert process.weights() == pytest.approx(undisturbed.weights(), rel=1e-3)


def test_windows_of_pods_matched_before_are_dropped_at_their_end_or_with_the_pod() -> None:
    process = Process()
    process.observe(0, 500)
    process.usage.load_history(WEB, "app", process.saved(1)[WEB][0])
    process.usage.put_autoscaler(WEB, NOTHING, ())
    assert [window.peak for window in process.saved(2)[WEB][1]] == [500 * MIB]
    assert process.saved(25)[WEB][1] == []
    process.usage.remove_pod(PodKey("shop", "web-1"))
    assert process.saved(2)[WEB][1] == []
    process.usage.put_autoscaler(WEB, EVERYTHING, ())
    assert process.usage.autoscalers[WEB].former == set()


# Encoding


WINDOW = RunningWindow(pod=0x9F86D081884C7D6, end=at(24), peak=5, oom_peak=7, last_oom=at(1))
STATUS = CheckpointStatus(last_update_time=START, version="v3", total_samples_count=9)


def test_the_annotation_has_the_documented_format() -> None:
    assert annotation(encode_windows([WINDOW]), STATUS) == (
        '{"lastUpdateTime":"2026-01-01T00:00:00Z","totalSamplesCount":9,'
        '"windows":[["9f86d081884c7d6",1767312000,5,7,1767229200]]}'
    )


def test_encoded_windows_decode_to_the_same_windows() -> None:
    windows = [WINDOW, window_of(1), RunningWindow(0, at(3), 0, 0, 0)]
    assert decode_windows(encode_windows(windows)) == sorted(windows)
    assert encode_windows(windows) == encode_windows(windows[::-1])
    assert encode_windows([]) == NONE


def window_of(number: int, peak: int = 5) -> RunningWindow:
    return WINDOW._replace(pod=number, peak=peak)


def test_the_windows_with_the_highest_peaks_are_kept() -> None:
    windows = [window_of(number, peak=10**14 - 7 * number) for number in range(2 * MOST)]
    text = encode_windows(windows)
    assert decode_windows(text) == windows[:MOST]
    assert len(text) < 40_000


@pytest.mark.parametrize(
    ("status", "belongs"),
    [
        pytest.param(STATUS, True, id="the status that they were written with"),
        pytest.param(
            CheckpointStatus(last_update_time=START + timedelta(seconds=1), total_samples_count=9),
            False,
            id="a status that was written later",
        ),
        pytest.param(
            CheckpointStatus(last_update_time=START, total_samples_count=10),
            False,
            id="a status with more samples",
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
def test_invalid_windows_are_refused(text: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_windows(text)
