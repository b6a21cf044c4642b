"""Walks up the chain of owners; complete chains are in the golden data."""

from collections.abc import Mapping

import pytest

from common.api.meta import ObjectMeta, OwnerReference
from common.target.owners import (
    Absent,
    Answer,
    Controller,
    Failed,
    Found,
    NeedsLookup,
    OwnerError,
    OwnerProblem,
    Topmost,
    Unknown,
    controller_of,
    topmost,
)

REPLICA_SET = Controller("shop", "ReplicaSet", "web-1", "apps/v1")
DEPLOYMENT = Controller("shop", "Deployment", "web", "apps/v1")
ROLLOUT = Controller("shop", "Rollout", "web", "example.com/v1")


def owned_by(owner: Controller | None) -> Found:
    return Found(None if owner is None else (reference(owner),))


def reference(owner: Controller, *, controls: bool | None = True) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version, kind=owner.kind, name=owner.name, controller=controls
    )


def walk(answers: Mapping[Controller, Answer]) -> Topmost | OwnerError | NeedsLookup:
    return topmost(REPLICA_SET, lambda controller: answers.get(controller, Unknown()))


def test_the_end_of_the_chain_is_topmost() -> None:
    assert walk({REPLICA_SET: owned_by(DEPLOYMENT), DEPLOYMENT: owned_by(None)}) == Topmost(
        DEPLOYMENT
    )


def test_unknown_owners_are_requested_one_by_one() -> None:
    assert walk({}) == NeedsLookup(REPLICA_SET)
    assert walk({REPLICA_SET: owned_by(ROLLOUT)}) == NeedsLookup(ROLLOUT)


@pytest.mark.parametrize(
    ("above", "want"),
    [
        (Absent(), Topmost(REPLICA_SET)),
        (owned_by(None), Topmost(ROLLOUT)),
        (
            Failed("refused"),
            OwnerError("unhandled targetRef example.com/v1 / Rollout / web, last error refused"),
        ),
    ],
    ids=["no scale subresource", "scalable", "refused"],
)
def test_an_owner_of_another_kind(above: Answer, want: Topmost | OwnerError) -> None:
    assert walk({REPLICA_SET: owned_by(ROLLOUT), ROLLOUT: above}) == want


def test_a_well_known_owner_must_exist() -> None:
    assert walk({REPLICA_SET: owned_by(DEPLOYMENT), DEPLOYMENT: Absent()}) == OwnerError(
        "Deployment shop/web does not exist", OwnerProblem.MISSING
    )


def test_a_cycle() -> None:
    assert walk({REPLICA_SET: owned_by(DEPLOYMENT), DEPLOYMENT: owned_by(REPLICA_SET)}) == (
        OwnerError("cycle detected in ownership chain", OwnerProblem.CYCLE)
    )


def test_a_node_is_never_requested() -> None:
    node = Controller("shop", "Node", "node-1", "v1")
    assert walk({REPLICA_SET: owned_by(node)}) == OwnerError(
        "unhandled targetRef v1 / Node / node-1, last error node is not a valid owner",
        OwnerProblem.NODE,
    )


def test_with_several_controllers_the_last_counts_for_pods_and_the_first_for_controllers() -> None:
    meta = ObjectMeta(
        namespace="shop",
        owner_references=(
            reference(DEPLOYMENT),
            reference(REPLICA_SET),
            reference(ROLLOUT, controls=False),
            reference(ROLLOUT, controls=None),
        ),
    )
    assert controller_of(meta) == REPLICA_SET
    job = Controller("shop", "Job", "job", "batch/v1")
    known = {job: Found(meta.owner_references), DEPLOYMENT: Found()}
    assert topmost(job, known.__getitem__) == Topmost(DEPLOYMENT)


@pytest.mark.parametrize("owners", [None, (), (reference(DEPLOYMENT, controls=False),)])
def test_a_pod_without_a_controller_reference(owners: tuple[OwnerReference, ...] | None) -> None:
    meta = ObjectMeta(namespace="shop", owner_references=owners)
    assert controller_of(meta) is None
