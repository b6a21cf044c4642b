"""Times and validity of Leases."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from common.api.coordination import Lease, LeaseSpec
from common.api.meta import ObjectMeta
from common.kube.lease import AdmissionStatus, is_alive, micro_time

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("moment", "want"),
    [
        pytest.param(NOW, "2026-01-02T12:00:00.000000Z", id="whole second"),
        pytest.param(NOW.replace(microsecond=70), "2026-01-02T12:00:00.000070Z", id="microseconds"),
        pytest.param(
            NOW.astimezone(timezone(timedelta(hours=2))), "2026-01-02T12:00:00.000000Z", id="zone"
        ),
    ],
)
def test_micro_time_has_six_digits_and_is_utc(moment: datetime, want: str) -> None:
    assert micro_time(moment) == want


@pytest.mark.parametrize(
    ("holder", "created", "renewed", "want"),
    [
        pytest.param("a", MINUTE - SECOND, None, True, id="just created"),
        pytest.param("a", MINUTE, None, False, id="created exactly the timeout ago"),
        pytest.param("a", 10 * MINUTE, MINUTE - SECOND, True, id="renewed"),
        pytest.param("a", 10 * MINUTE, MINUTE, False, id="renewed exactly the timeout ago"),
        pytest.param("a", SECOND, 10 * MINUTE, True, id="created counts even if renewed long ago"),
        pytest.param("a", None, None, False, id="no times"),
        pytest.param(None, SECOND, None, False, id="just created by the manifests"),
        pytest.param("", SECOND, None, False, id="just created, with an empty holder"),
        pytest.param("", 10 * MINUTE, SECOND, True, id="renewed, with an empty holder"),
    ],
)
def test_is_alive(
    holder: str | None,
    created: timedelta | None,
    renewed: timedelta | None,
    want: bool,  # noqa: FBT001 - a table's column
) -> None:
    lease = Lease(
        metadata=ObjectMeta(creation_timestamp=None if created is None else NOW - created),
        spec=LeaseSpec(
            holder_identity=holder, renew_time=None if renewed is None else NOW - renewed
        ),
    )
    assert is_alive(lease, max_age=MINUTE, now=NOW) is want


def test_only_a_live_lease_of_the_admission_controller_allows_evictions() -> None:
    assert [each for each in AdmissionStatus if each.allows_eviction] == [AdmissionStatus.ALIVE]
