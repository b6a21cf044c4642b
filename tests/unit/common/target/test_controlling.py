"""Which VPA wins for a pod; the ordinary cases are in the golden data."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from builders import CREATED, pod, vpa
from common.api.autoscaling import TargetReference
from common.labels import EVERYTHING, NOTHING
from common.target.controlling import SelectedVpa, controlling, target_key
from common.target.owners import Controller

WEB = Controller("default", "Deployment", "web", "apps/v1")
META = pod().metadata
LATER = CREATED + timedelta(seconds=1)


def name_of(found: SelectedVpa | None) -> str | None:
    return found.vpa.metadata.name if found is not None else None


def selected(*vpas: str, target: tuple[str, str] | None = ("Deployment", "web")) -> SelectedVpa:
    return SelectedVpa(vpa(*vpas, target=target), EVERYTHING)


def test_the_oldest_wins_whatever_the_order() -> None:
    old = SelectedVpa(vpa("b", created=CREATED), EVERYTHING)
    young = SelectedVpa(vpa("a", created=LATER), EVERYTHING)
    assert name_of(controlling(META, WEB, [old, young])) == "b"
    assert name_of(controlling(META, WEB, [young, old])) == "b"


def test_of_equally_old_ones_the_smaller_name_wins() -> None:
    assert name_of(controlling(META, WEB, [selected("b"), selected("a")])) == "a"


def test_who_does_not_compete() -> None:
    others = [
        SelectedVpa(vpa("unresolved"), NOTHING),
        SelectedVpa(vpa("elsewhere", namespace="other"), EVERYTHING),
        selected("other-kind", target=("StatefulSet", "web")),
        selected("other-name", target=("Deployment", "api")),
        selected("no-target", target=None),
    ]
    assert controlling(META, WEB, others) is None


def test_no_controller_no_vpa() -> None:
    assert controlling(META, None, [selected("a")]) is None


def targeting(api_version: str) -> SelectedVpa:
    one = vpa("a")
    ref = TargetReference(api_version=api_version, kind="Deployment", name="web")
    return SelectedVpa(replace(one, spec=replace(one.spec, target_ref=ref)), EVERYTHING)


@pytest.mark.parametrize(
    ("given", "owner", "wins"),
    [
        pytest.param("apps/v1", "apps/v1", True, id="the same"),
        pytest.param("apps/v1beta2", "apps/v1", True, id="another version"),
        pytest.param("extensions/v1beta1", "apps/v1", True, id="where it was once"),
        pytest.param("v1", "apps/v1", True, id="a mistake that means nothing else"),
        pytest.param("", "example.com/v1", True, id="not given"),
        pytest.param("apps/v1", "", True, id="not known of the owner"),
        pytest.param("apps/v1", "example.com/v1", False, id="a custom kind of that name"),
        pytest.param("example.com/v1", "apps/v1", False, id="the custom kind is meant"),
        pytest.param("example.com/v1", "example.com/v2", True, id="versions of a custom kind"),
        pytest.param("example.com/v1", "example.org/v1", False, id="two custom kinds"),
    ],
)
def test_api_groups_are_compared_where_they_are_given(
    given: str, owner: str, *, wins: bool
) -> None:
    """Q18."""
    controller = Controller("default", "Deployment", "web", owner)
    assert (controlling(META, controller, [targeting(given)]) is not None) == wins


def test_vpas_are_found_by_kind_and_name() -> None:
    assert target_key(vpa("a")) == WEB.key
    assert target_key(vpa("a", target=None)) is None
