"""The running memory windows, encoded in an annotation of a checkpoint.

A checkpoint of the reference omits the running window of each container, and after a restart a new
one begins. That loses the peak of up to a day, and the effect of an OOM kill. So these windows are
kept in an annotation, which the reference neither reads nor changes. It identifies the status that
it belongs to, and is ignored after another program has written another status.

Source: recommender.md 11.1 and Q4.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from common.api.autoscaling import CheckpointStatus
from common.api.base import Time, Wire
from common.api.decoding import decode
from common.errors import DecodeError
from recommender.model.running_windows import MOST_BYTES, RunningWindow

ANNOTATION = "vpa-recommender/memory-windows"
NONE = b"[]"
MOST = 500  # windows of a checkpoint: 25 kB of text; an object may have 256 kB of annotations

_SECOND = 1_000_000  # of instants
_EPOCH = 62_135_596_800  # seconds from the year 1 to 1970
_LATEST = 253_402_300_799  # the end of the year 9999, in seconds since 1970

_Seconds = Annotated[int, msgspec.Meta(ge=0, le=_LATEST)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
_Pod = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{15}$")]


class _Written(NamedTuple):
    pod: _Pod  # the beginning of its UID, without dashes
    end: _Seconds  # since 1970, rounded up
    peak: _Bytes
    oom_peak: _Bytes
    last_oom: _Seconds  # since 1970; 0: none


class _Extra(Wire, frozen=True, kw_only=True):
    last_update_time: Time | None = None
    total_samples_count: int = 0
    windows: msgspec.Raw = msgspec.Raw(NONE)


_extra_decoder = msgspec.json.Decoder(_Extra)
_windows_decoder = msgspec.json.Decoder(list[_Written])
_encoder = msgspec.json.Encoder()


def encode_windows(windows: Sequence[RunningWindow]) -> bytes:
    """Encode windows as JSON, in the order of the pods.

    If there are too many, keep the highest peaks, which determine high percentiles.
    """
    if len(windows) > MOST:
        highest = sorted(windows, key=lambda one: (-max(one.peak, one.oom_peak), one.pod))
        windows = highest[:MOST]
    return _encoder.encode(
        [
            (f"{pod:015x}", _up(end), peak, oom_peak, max(_up(last_oom), 0))
            for pod, end, peak, oom_peak, last_oom in sorted(windows)
        ]
    )


def decode_windows(text: bytes) -> list[RunningWindow]:
    """Decode the result of :func:`windows_of`.

    Raises:
        DecodeError: the text doesn't encode windows.
    """
    try:
        written = decode(_windows_decoder, text)
    except msgspec.DecodeError as error:
        raise DecodeError(f"no windows: {error}") from error
    return [
        RunningWindow(
            pod=int(one.pod, 16),
            end=_instant(one.end),
            peak=one.peak,
            oom_peak=one.oom_peak,
            last_oom=_instant(one.last_oom) if one.last_oom else 0,
        )
        for one in written
    ]


def annotation(windows: bytes, status: CheckpointStatus) -> str:
    """Return the annotation for a checkpoint with this status."""
    extra = _Extra(
        last_update_time=status.last_update_time,
        total_samples_count=status.total_samples_count,
        windows=msgspec.Raw(windows),
    )
    return _encoder.encode(extra).decode()


def windows_of(text: str, status: CheckpointStatus) -> bytes | None:
    """Return the windows in an annotation; None if it belongs to another status.

    Raises:
        DecodeError: the annotation can't be decoded.
    """
    try:
        extra = decode(_extra_decoder, text)
    except msgspec.DecodeError as error:
        raise DecodeError(f"no running windows: {error}") from error
    belongs = (extra.last_update_time, extra.total_samples_count) == (
        status.last_update_time,
        status.total_samples_count,
    )
    return bytes(extra.windows) if belongs else None


def _up(instant: int) -> int:
    return -(-instant // _SECOND) - _EPOCH


def _instant(seconds: int) -> int:
    return (seconds + _EPOCH) * _SECOND
