"""What a VPA's mode means."""

import pytest

from builders import vpa
from common.api.autoscaling import UpdateMode
from updater.snapshot import update_mode


@pytest.mark.parametrize(
    ("written", "want"),
    [
        (None, UpdateMode.RECREATE),
        ("", UpdateMode.RECREATE),
        ("Auto", UpdateMode.AUTO),
        ("InPlace", UpdateMode.IN_PLACE),
        ("InPlaceOrRecreate", UpdateMode.IN_PLACE_OR_RECREATE),
        ("SomethingNewer", None),
    ],
)
def test_update_mode(written: str | None, want: UpdateMode | None) -> None:
    assert update_mode(vpa(mode=written)) is want
