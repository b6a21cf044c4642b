"""The VPA of a new pod if owners or selectors are missing, late, refused or invalid."""

from collections.abc import Iterable
from datetime import timedelta

import pytest

from admission.cluster import VpaMatcher
from admission.pod_reviews import LookupFailedError, VpaMatch
from admission.vpa_index import VpaIndex
from builders import CREATED, pod, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
)
from common.api.meta import ObjectMeta
from common.kube.cache import Change
from common.kube.targets import TargetError
from common.labels import EVERYTHING, NOTHING, Selector
from common.target.owners import Controller, OwnerProblem

DEPLOYMENT = Controller("default", "Deployment", "web", "apps/v1")


class FakeTargets:
    """Raises the listed errors one by one, and then resolves every owner to one controller."""

    def __init__(
        self,
        top: Controller | None = DEPLOYMENT,
        *,
        errors: Iterable[TargetError] = (),
        selectors: dict[str, Selector | TargetError] | None = None,
    ) -> None:
        self.top = top
        self.errors = list(errors)
        self.selectors = selectors or {}
        self.asked: list[Controller] = []

    async def topmost(self, controller: Controller) -> Controller | None:
        self.asked.append(controller)
        if self.errors:
            raise self.errors.pop(0)
        return self.top

    async def selector(self, found: VerticalPodAutoscaler) -> Selector:
        selector = self.selectors.get(found.metadata.name, EVERYTHING)
        if isinstance(selector, TargetError):
            raise selector
        return selector


def missing() -> TargetError:
    return TargetError("ReplicaSet default/web does not exist", problem=OwnerProblem.MISSING)


async def match(
    targets: FakeTargets, *vpas: VerticalPodAutoscaler, meta: ObjectMeta | None = None
) -> VpaMatch:
    index = VpaIndex()
    for each in vpas:
        index.apply(Change(None, each))
    return await VpaMatcher(index, targets).match(meta or pod().metadata)


def name_of(found: VpaMatch) -> str:
    assert found.vpa is not None
    return found.vpa.metadata.name


async def test_the_vpa_of_the_topmost_controller() -> None:
    assert name_of(await match(FakeTargets(), vpa("web"), vpa("db", target=("X", "db")))) == "web"


async def test_of_several_vpas_the_oldest_is_chosen() -> None:
    young = vpa("a", created=CREATED + timedelta(seconds=1))
    assert name_of(await match(FakeTargets(), young, vpa("b"), vpa("c"))) == "b"


async def test_an_older_vpa_of_mode_off_does_not_shadow_an_active_one() -> None:
    active = vpa("active", created=CREATED + timedelta(days=1))
    assert name_of(await match(FakeTargets(), vpa("older", mode="Off"), active)) == "active"


async def test_a_vpa_of_mode_off_alone() -> None:
    assert await match(FakeTargets(), vpa(mode="Off")) == VpaMatch(off=True)


async def test_a_vpa_of_mode_off_with_a_boost_competes() -> None:
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2))
    policy = ContainerPolicy(container_name="*", startup_boost=boost)
    assert name_of(await match(FakeTargets(), vpa("x", mode="Off", policies=(policy,)))) == "x"


async def test_a_vpa_without_selector_is_skipped_alone() -> None:
    targets = FakeTargets(selectors={"a": TargetError("no scale")})
    assert name_of(await match(targets, vpa("a"), vpa("b"))) == "b"


async def test_a_selector_that_does_not_select_the_pod() -> None:
    assert await match(FakeTargets(selectors={"a": NOTHING}), vpa("a")) == VpaMatch()


async def test_without_a_vpa_in_the_namespace_no_owner_is_requested() -> None:
    targets = FakeTargets()
    assert await match(targets, vpa(namespace="elsewhere")) == VpaMatch()
    assert targets.asked == []


async def test_a_pod_without_controller() -> None:
    targets = FakeTargets()
    assert await match(targets, vpa(), meta=pod(owner=None).metadata) == VpaMatch()
    assert targets.asked == []


async def test_a_chain_without_any_known_controller() -> None:
    assert await match(FakeTargets(None), vpa()) == VpaMatch()


async def test_a_static_pod_is_owned_by_its_node() -> None:
    node = TargetError("node is not a valid owner", problem=OwnerProblem.NODE)
    assert await match(FakeTargets(errors=[node]), vpa()) == VpaMatch()


@pytest.mark.parametrize("times", [1, 5])
async def test_a_missing_owner_is_requested_again(times: int) -> None:
    targets = FakeTargets(errors=[missing() for _ in range(times)])
    assert name_of(await match(targets, vpa("web"))) == "web"
    assert len(targets.asked) == times + 1


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param([missing() for _ in range(6)], id="an owner that stays missing"),
        pytest.param([TargetError("refused", transient=True)], id="a refused request"),
        pytest.param([TargetError("cycle", problem=OwnerProblem.CYCLE)], id="a cycle"),
    ],
)
async def test_errors_of_owner_lookups(errors: list[TargetError]) -> None:
    with pytest.raises(LookupFailedError):
        await match(FakeTargets(errors=errors), vpa())
