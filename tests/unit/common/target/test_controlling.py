"""The VPA that controls a pod; ordinary cases are in the golden data."""

from datetime import timedelta

import msgspec
import pytest

from builders import CREATED, pod, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    StartupBoost,
    UpdatePolicy,
    VerticalPodAutoscaler,
)
from common.labels import EVERYTHING, NOTHING
from common.target.controlling import (
    SelectedVpa,
    can_control_pods,
    controlling,
    has_startup_boost,
    mode_of,
    target_key,
)
from common.target.owners import Controller

WEB = Controller("default", "Deployment", "web", "apps/v1")
META = pod().metadata
LATER = CREATED + timedelta(seconds=1)


def name_of(found: SelectedVpa | None) -> str | None:
    return found.vpa.metadata.name if found is not None else None


def selected(*vpas: str, target: tuple[str, str] | None = ("Deployment", "web")) -> SelectedVpa:
    return SelectedVpa(vpa(*vpas, target=target), EVERYTHING)


def test_the_oldest_vpa_wins_in_any_order() -> None:
    old = SelectedVpa(vpa("b", created=CREATED), EVERYTHING)
    young = SelectedVpa(vpa("a", created=LATER), EVERYTHING)
    assert name_of(controlling(META, WEB, [old, young])) == "b"
    assert name_of(controlling(META, WEB, [young, old])) == "b"


def test_of_vpas_of_the_same_age_the_smaller_name_wins() -> None:
    assert name_of(controlling(META, WEB, [selected("b"), selected("a")])) == "a"


def test_vpas_that_do_not_match() -> None:
    others = [
        SelectedVpa(vpa("unresolved"), NOTHING),
        SelectedVpa(vpa("elsewhere", namespace="other"), EVERYTHING),
        selected("other-kind", target=("StatefulSet", "web")),
        selected("other-name", target=("Deployment", "api")),
        selected("no-target", target=None),
    ]
    assert controlling(META, WEB, others) is None


def test_a_pod_without_controller_has_no_vpa() -> None:
    assert controlling(META, None, [selected("a")]) is None


def test_the_api_group_is_not_compared() -> None:
    other = Controller("default", "Deployment", "web", "example.com/v1")
    assert name_of(controlling(META, other, [selected("a")])) == "a"
    assert target_key(vpa("a")) == other.key
    assert target_key(vpa("a", target=None)) is None


OWN_BOOST = vpa(mode="Off", policies=(ContainerPolicy(startup_boost=StartupBoost()),))
SHARED_BOOST = msgspec.structs.replace(
    vpa(mode="Off"),
    spec=msgspec.structs.replace(vpa(mode="Off").spec, startup_boost=StartupBoost()),
)


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("Off", False),
        ("Initial", True),
        ("Recreate", True),
        ("Auto", True),
        ("InPlaceOrRecreate", True),
        ("InPlace", True),
        ("FromTheFuture", True),
        ("", True),
        (None, True),
    ],
)
def test_which_modes_can_control_pods(mode: str | None, *, want: bool) -> None:
    plain = vpa("a")
    spec = msgspec.structs.replace(plain.spec, update_policy=UpdatePolicy(update_mode=mode))
    assert can_control_pods(msgspec.structs.replace(plain, spec=spec)) is want


def test_without_an_update_policy_a_vpa_can_control_pods() -> None:
    plain = vpa("a")
    spec = msgspec.structs.replace(plain.spec, update_policy=None)
    assert can_control_pods(msgspec.structs.replace(plain, spec=spec))


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        pytest.param(None, "Recreate", id="none"),
        pytest.param("", "Recreate", id="an empty one, as the reference reads it"),
        pytest.param("Initial", "Initial", id="a known one"),
        pytest.param("Someday", "Someday", id="an unknown one stays as it is written"),
    ],
)
def test_the_mode_of_a_vpa(written: str | None, mode: str) -> None:
    assert mode_of(vpa("a", mode=written)) == mode


@pytest.mark.parametrize("boosting", [OWN_BOOST, SHARED_BOOST], ids=["of a container", "shared"])
def test_mode_off_with_a_startup_boost_can_control_pods(boosting: VerticalPodAutoscaler) -> None:
    assert has_startup_boost(boosting)
    assert can_control_pods(boosting)
    assert not has_startup_boost(vpa("a"))
