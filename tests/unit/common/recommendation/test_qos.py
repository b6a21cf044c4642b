"""Quality-of-service classes; the rules are in kubernetes-resize.md 1.4."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from msgspec import structs

from builders import container, pod
from common.api.core import ResourceRequirements
from common.recommendation.qos import QosClass, qos_class, qos_class_of
from common.resources import parse_quantities

Texts = Mapping[str, str]
BOTH = {"cpu": "1", "memory": "1Gi"}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: QosClass
    requests: Texts
    limits: Texts


CASES = [
    Case(id="no requests and limits", requests={}, limits={}, want=QosClass.BEST_EFFORT),
    Case(id="only zeros", requests={"cpu": "0"}, limits={}, want=QosClass.BEST_EFFORT),
    Case(id="another resource", requests={"gpu": "1"}, limits={}, want=QosClass.BEST_EFFORT),
    Case(id="all equal", requests=BOTH, limits=BOTH, want=QosClass.GUARANTEED),
    Case(
        id="equal by value",
        requests={"cpu": "1000m", "memory": "1024Mi"},
        limits=BOTH,
        want=QosClass.GUARANTEED,
    ),
    Case(
        id="one resource unequal",
        requests=BOTH,
        limits={**BOTH, "cpu": "2"},
        want=QosClass.BURSTABLE,
    ),
    Case(
        id="one resource without limit",
        requests=BOTH,
        limits={"cpu": "1"},
        want=QosClass.BURSTABLE,
    ),
    Case(
        id="no memory",
        requests={"cpu": "1"},
        limits={"cpu": "1"},
        want=QosClass.BURSTABLE,
    ),
    Case(id="only a limit", requests={}, limits={"cpu": "1"}, want=QosClass.BURSTABLE),
    Case(id="only a request", requests={"cpu": "1"}, limits={}, want=QosClass.BURSTABLE),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_container(case: Case) -> None:
    container_ = (parse_quantities(case.requests), parse_quantities(case.limits))
    assert qos_class_of([container_]) is case.want


def test_one_burstable_container_makes_the_pod_burstable() -> None:
    both, nothing = parse_quantities(BOTH), parse_quantities({})
    assert qos_class_of([(both, both), (both, both)]) is QosClass.GUARANTEED
    assert qos_class_of([(both, both), (nothing, nothing)]) is QosClass.BURSTABLE
    assert qos_class_of([]) is QosClass.BEST_EFFORT


def test_init_containers_count() -> None:
    spec = pod(containers=(container(requests=BOTH, limits=BOTH),)).spec
    assert qos_class(spec) is QosClass.GUARANTEED
    spec = structs.replace(spec, init_containers=(container("init"),))
    assert qos_class(spec) is QosClass.BURSTABLE


STANZAS = {
    "none": (None, QosClass.BURSTABLE),
    "empty": (ResourceRequirements(requests={}, limits={}), QosClass.BURSTABLE),
    "equal": (ResourceRequirements(requests=BOTH, limits=BOTH), QosClass.GUARANTEED),
    "only cpu": (
        ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "1"}),
        QosClass.BURSTABLE,
    ),
    "only zeros": (ResourceRequirements(requests={"cpu": "0"}), QosClass.BEST_EFFORT),
}


@pytest.mark.parametrize(("stanza", "want"), STANZAS.values(), ids=STANZAS)
def test_pod_level_resources_alone_decide(
    stanza: ResourceRequirements | None, want: QosClass
) -> None:
    spec = pod(containers=(container(requests={"cpu": "1"}),)).spec
    assert qos_class(structs.replace(spec, resources=stanza)) is want
