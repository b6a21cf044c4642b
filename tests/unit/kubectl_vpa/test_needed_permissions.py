"""The permissions that ``kubectl vpa doctor`` asks for, with the roles of the manifests."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import pytest

import recommender.access
from common.errors import ForbiddenError
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint, Permission
from kubectl_vpa.cluster.installation import denied_permissions
from kubectl_vpa.cluster.needed_permissions import NEEDED, needed_by
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.findings import RECOMMENDER, UPDATER, ComponentPod
from role_rules import NAMESPACE_VPAS, bound_roles, granted

ACCOUNT = "system:serviceaccount:kube-system:vpa-recommender"
OWN_ROLES = granted(bound_roles(RECOMMENDER))
COMPONENT_ROLES = granted(bound_roles(RECOMMENDER, folder=NAMESPACE_VPAS))
FOR_NAMESPACES = [
    "create verticalpodautoscalers.autoscaling.k8s.io",
    "delete verticalpodautoscalers.autoscaling.k8s.io",
    "list horizontalpodautoscalers.autoscaling",
    "list namespaces",
    "patch verticalpodautoscalers.autoscaling.k8s.io",
]


def pod(*arguments: str, component: str = RECOMMENDER) -> ComponentPod:
    return ComponentPod(
        component=component,
        namespace="kube-system",
        name=f"{component}-1",
        account=ACCOUNT,
        image="registry.example/image:1.8.0",
        ready=True,
        arguments=arguments,
    )


@dataclass(frozen=True)
class FakeReviews:
    """An API server that reviews access by these permissions; None: the person may not ask."""

    allowed: Collection[Permission] | None

    async def create(self, _endpoint: Endpoint[Any], review: Any) -> dict[str, Any]:
        if self.allowed is None:
            raise ForbiddenError("subjectaccessreviews is forbidden")
        asked = review["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        permissions = {
            (asked["group"], resource, asked["verb"], name) for name in {asked["name"], ""}
        }
        return {"status": {"allowed": not permissions.isdisjoint(self.allowed)}}

    def reader(self) -> Reader:
        return Reader(cast("KubeClient", self), "")


@pytest.mark.parametrize(
    ("argument", "more"),
    [
        pytest.param("--v=4", False, id="without the flag"),
        pytest.param("--namespace-vpas=false", False, id="false"),
        pytest.param("--namespace-vpas=maybe", False, id="neither true nor false"),
        pytest.param("--namespace-vpas=true", True, id="true"),
        pytest.param("--namespace-vpas=T", True, id="true as Go writes it"),
        pytest.param("--namespace-vpas", True, id="without a value"),
    ],
)
def test_the_recommender_needs_more_with_namespace_vpas(argument: str, *, more: bool) -> None:
    extra = recommender.access.NAMESPACE_VPAS if more else ()
    assert needed_by(pod(argument)) == (*NEEDED[RECOMMENDER], *extra)


def test_no_other_component_needs_more_with_namespace_vpas() -> None:
    assert needed_by(pod("--namespace-vpas=true", component=UPDATER)) == NEEDED[UPDATER]


@pytest.mark.parametrize(
    ("roles", "argument", "denied"),
    [
        pytest.param(OWN_ROLES, "--v=4", [], id="without the flag"),
        pytest.param(
            OWN_ROLES, "--namespace-vpas=true", FOR_NAMESPACES, id="flag without its component"
        ),
        pytest.param(
            OWN_ROLES | COMPONENT_ROLES, "--namespace-vpas=true", [], id="flag and its component"
        ),
    ],
)
async def test_what_an_account_lacks(
    roles: Collection[Permission], argument: str, denied: list[str]
) -> None:
    found = await denied_permissions(FakeReviews(roles).reader(), [pod(argument)])
    assert found == {ACCOUNT: denied}


async def test_each_permission_of_an_account_is_named_once() -> None:
    """Two replicas may have different flags while a rollout goes on."""
    pods = [pod("--namespace-vpas=true"), pod("--v=4"), pod(component=UPDATER)]
    found = await denied_permissions(FakeReviews(()).reader(), pods)
    assert found is not None
    assert len(found[ACCOUNT]) == len(set(found[ACCOUNT]))
    assert {
        *FOR_NAMESPACES,
        "list pods",
        "list pods.metrics.k8s.io",
        "create pods/eviction",
    } <= set(found[ACCOUNT])


async def test_nothing_is_known_without_the_right_to_review_access() -> None:
    assert await denied_permissions(FakeReviews(None).reader(), [pod()]) is None
