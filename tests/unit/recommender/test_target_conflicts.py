"""Which VPA controls the pods of a target that several VPAs have."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from builders import vpa
from common.api.autoscaling import (
    GenericStartupBoost,
    StartupBoost,
    TargetReference,
    VerticalPodAutoscaler,
)
from recommender.model.keys import VpaKey
from recommender.sources.target_conflicts import TargetConflicts

DAY = datetime(2026, 1, 2, tzinfo=UTC)


def made(
    name: str,
    *,
    days_ago: int = 0,
    mode: str = "Recreate",
    target: str = "web",
    namespace: str = "shop",
    boosts: bool = False,
) -> VerticalPodAutoscaler:
    plain = vpa(name, mode=mode)
    meta = msgspec.structs.replace(
        plain.metadata, namespace=namespace, creation_timestamp=DAY - timedelta(days=days_ago)
    )
    reference = TargetReference(api_version="apps/v1", kind="Deployment", name=target)
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2)) if boosts else None
    spec = msgspec.structs.replace(plain.spec, target_ref=reference, startup_boost=boost)
    return msgspec.structs.replace(plain, metadata=meta, spec=spec)


@pytest.mark.parametrize(
    ("vpas", "want"),
    [
        pytest.param([made("a")], {}, id="alone"),
        pytest.param([made("a"), made("b", target="api")], {}, id="another target"),
        pytest.param([made("a"), made("b", namespace="shed")], {}, id="another namespace"),
        pytest.param([made("new"), made("old", days_ago=1)], {"new": "old"}, id="an older one"),
        pytest.param([made("b"), made("a")], {"b": "a"}, id="of the same age"),
        pytest.param(
            [made("new"), made("mid", days_ago=1), made("old", days_ago=2)],
            {"mid": "old", "new": "old"},
            id="the oldest of three",
        ),
        pytest.param(
            [made("new"), made("old", days_ago=1, mode="Off")], {}, id="an older one that is Off"
        ),
        pytest.param(
            [made("new"), made("old", days_ago=1, mode="Initial")],
            {"new": "old"},
            id="an older one for new pods alone",
        ),
        pytest.param(
            [made("new"), made("old", days_ago=1, mode="Off", boosts=True)],
            {"new": "old"},
            id="an older one that is Off and boosts new pods",
        ),
        pytest.param(
            [made("new", mode="Off"), made("old", days_ago=1)], {}, id="one that is Off itself"
        ),
    ],
)
def test_x115_which_vpas_another_one_controls(
    vpas: list[VerticalPodAutoscaler], want: dict[str, str]
) -> None:
    for given in (vpas, vpas[::-1]):
        rivals = TargetConflicts()
        for each in given:
            rivals.add(each)
        assert rivals.controlled() == {VpaKey("shop", name): by for name, by in want.items()}
