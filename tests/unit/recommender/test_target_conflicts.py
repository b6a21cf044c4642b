"""The VPA that controls the pods of a target with several VPAs."""

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
from recommender.sources.target_conflicts import controlled_vpas

DAY = datetime(2026, 1, 2, tzinfo=UTC)


def new_vpa(
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
        pytest.param([new_vpa("a")], {}, id="one VPA"),
        pytest.param([new_vpa("a"), new_vpa("b", target="api")], {}, id="another target"),
        pytest.param([new_vpa("a"), new_vpa("b", namespace="shed")], {}, id="another namespace"),
        pytest.param(
            [new_vpa("new"), new_vpa("old", days_ago=1)], {"new": "old"}, id="an older VPA"
        ),
        pytest.param([new_vpa("b"), new_vpa("a")], {"b": "a"}, id="VPAs of the same age"),
        pytest.param(
            [new_vpa("new"), new_vpa("mid", days_ago=1), new_vpa("old", days_ago=2)],
            {"mid": "old", "new": "old"},
            id="the oldest of three",
        ),
        pytest.param(
            [new_vpa("new"), new_vpa("old", days_ago=1, mode="Off")],
            {},
            id="an older VPA of mode Off",
        ),
        pytest.param(
            [new_vpa("new"), new_vpa("old", days_ago=1, mode="Initial")],
            {"new": "old"},
            id="an older VPA of mode Initial",
        ),
        pytest.param(
            [new_vpa("new"), new_vpa("old", days_ago=1, mode="Off", boosts=True)],
            {"new": "old"},
            id="an older VPA of mode Off with a start-up boost",
        ),
        pytest.param(
            [new_vpa("new", mode="Off"), new_vpa("old", days_ago=1)],
            {},
            id="a newer VPA of mode Off",
        ),
    ],
)
def test_x115_vpas_whose_pods_an_older_vpa_controls(
    vpas: list[VerticalPodAutoscaler], want: dict[str, str]
) -> None:
    for given in (vpas, vpas[::-1]):
        found = controlled_vpas(given)
        assert found == {VpaKey("shop", name): by for name, by in want.items()}
