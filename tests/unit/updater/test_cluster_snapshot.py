"""Update modes of VPAs, and VPAs that may change running pods."""

from typing import Any

import msgspec
import pytest

from builders import vpa
from common.api.autoscaling import StartupBoost, UpdateMode, VerticalPodAutoscaler
from common.features import FeatureGates
from updater.snapshot.cluster_snapshot import acts, skipped_vpas, update_mode


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


@pytest.mark.parametrize(
    ("mode", "boosts", "want"),
    [
        ("Recreate", False, True),
        ("Auto", False, True),
        ("InPlace", False, True),
        ("InPlaceOrRecreate", False, True),
        (None, False, True),
        ("Initial", False, False),
        ("Initial", True, True),
        ("Off", False, False),
        ("Off", True, True),
        ("SomethingNewer", True, False),
    ],
)
def test_which_vpas_may_change_running_pods(mode: str | None, *, boosts: bool, want: bool) -> None:
    ordinary = vpa(mode=mode)
    fields: dict[str, Any] = {"startup_boost": StartupBoost()} if boosts else {}
    spec = msgspec.structs.replace(ordinary.spec, **fields)
    assert acts(VerticalPodAutoscaler(metadata=ordinary.metadata, spec=spec)) is want


@pytest.mark.parametrize(
    ("mode", "gate", "want"),
    [
        ("InPlace", False, "mode InPlace needs --feature-gates=InPlace=true"),
        ("InPlace", True, None),
        ("Recreate", False, None),
        ("Off", False, None),
        ("SomethingNewer", True, "its update mode is not known to this version"),
    ],
)
def test_which_vpas_are_skipped(mode: str, *, gate: bool, want: str | None) -> None:
    found = skipped_vpas([vpa("web", mode=mode)], FeatureGates(in_place=gate))
    assert found.get(("default", "web")) == want
