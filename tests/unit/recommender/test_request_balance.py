"""Requests of containers compared with targets and with pod templates."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from common.labels import from_map
from common.resources import CPU, MEMORY
from recommender.model.autoscalers import ContainerRule
from recommender.model.keys import PodKey, Requests, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.request_balance import RequestBalance, balance_by_namespace, request_sums
from recommender.model.timestamps import instant
from recommender.model.usage import Usage

NOW = instant(datetime(2026, 1, 10, tzinfo=UTC))
WEB = VpaKey("shop", "web")
NOTHING = RequestBalance(given_back=0, added=0, above_target=0, below_target=0)


def put_pod(
    usage: Usage,
    name: str,
    *requests: Requests,
    app: str = "web",
    namespace: str = "shop",
    active: bool = True,
) -> None:
    facts = PodFacts(
        key=PodKey(namespace, name),
        uid=f"uid-{name}",
        labels={"app": app},
        active=active,
        containers=tuple(f"c{number}" for number in range(len(requests))),
        requests=requests,
    )
    usage.put_pod(facts, NOW)


def put_vpa(usage: Usage, key: VpaKey = WEB, *rules: ContainerRule, **template: Requests) -> None:
    selector = from_map({"app": key.name})
    usage.put_autoscaler(
        key, selector, rules, "Recreate", "Deployment/web", template_requests=template
    )


def set_target(usage: Usage, resource: str, amount: int, key: VpaKey = WEB) -> None:
    usage.aggregates.targets(resource)[usage.rows_of(key, "c0")] = amount


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    request: int
    template: int = 0
    target: int = 0
    want: RequestBalance = field(default=NOTHING)


def balance(**parts: float) -> RequestBalance:
    zero = {"given_back": 0.0, "added": 0.0, "above_target": 0.0, "below_target": 0.0}
    return RequestBalance(**zero | parts)


CASES = [
    Case(id="less than the template", request=100, template=400, want=balance(given_back=300)),
    Case(id="more than the template", request=400, template=100, want=balance(added=300)),
    Case(id="as in the template", request=400, template=400),
    Case(id="a template without a request", request=400),
    Case(id="above the target", request=400, target=100, want=balance(above_target=300)),
    Case(id="below the target", request=100, target=400, want=balance(below_target=300)),
    Case(id="as recommended", request=400, target=400),
    Case(id="no request", request=0, target=400, want=balance(below_target=400)),
    Case(
        id="between target and template",
        request=200,
        template=500,
        target=100,
        want=balance(given_back=300, above_target=100),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("resource", [CPU, MEMORY])
def test_a_container(resource: str, case: Case) -> None:
    usage = Usage()
    put_vpa(usage, c0=Requests(case.template, case.template))
    put_pod(usage, "web-1", Requests(case.request, case.request))
    set_target(usage, resource, case.target)
    assert balance_by_namespace(usage, resource) == {"shop": case.want}


def test_the_pods_of_a_namespace_are_added_up_without_offsetting_each_other() -> None:
    usage = Usage()
    put_vpa(usage)
    put_vpa(usage, VpaKey("shop", "db"))
    put_vpa(usage, VpaKey("bank", "web"))
    put_pod(usage, "web-1", Requests(cpu=300))
    put_pod(usage, "web-2", Requests(cpu=500))
    put_pod(usage, "db-1", Requests(cpu=10), app="db")
    put_pod(usage, "web-1", Requests(cpu=110), namespace="bank")
    for key in usage.autoscalers:
        set_target(usage, CPU, 100, key)
    assert balance_by_namespace(usage, CPU) == {
        "shop": balance(above_target=600, below_target=90),
        "bank": balance(above_target=10),
    }


def test_finished_pods_and_pods_without_a_vpa_do_not_count() -> None:
    usage = Usage()
    put_vpa(usage, c0=Requests(cpu=400))
    put_pod(usage, "web-1", Requests(cpu=100), active=False)
    put_pod(usage, "other-1", Requests(cpu=100), app="other")
    assert balance_by_namespace(usage, CPU) == {"shop": NOTHING}


def test_a_removed_pod_no_longer_counts() -> None:
    usage = Usage()
    put_vpa(usage, c0=Requests(cpu=400))
    put_pod(usage, "web-1", Requests(cpu=100))
    usage.remove_pod(PodKey("shop", "web-1"))
    assert balance_by_namespace(usage, CPU) == {"shop": NOTHING}


def test_without_vpas_there_are_no_namespaces() -> None:
    usage = Usage()
    put_pod(usage, "web-1", Requests(cpu=100))
    assert balance_by_namespace(usage, CPU) == {}


def test_the_next_vpa_starts_without_the_targets_of_a_removed_one() -> None:
    usage = Usage()
    put_vpa(usage, c0=Requests(cpu=400))
    put_pod(usage, "web-1", Requests(cpu=100))
    set_target(usage, CPU, 50)
    usage.remove_autoscaler(WEB)
    put_vpa(usage)
    assert balance_by_namespace(usage, CPU) == {"shop": NOTHING}


def test_the_number_of_a_removed_vpa_is_used_again() -> None:
    usage = Usage()
    for name in ("a", "b", "c"):
        put_vpa(usage, VpaKey("shop", name))
    usage.remove_autoscaler(VpaKey("shop", "b"))
    put_vpa(usage, VpaKey("shop", "d"))
    assert sorted(one.number for one in usage.autoscalers.values()) == [1, 2, 3]


def test_containers_that_the_policy_excludes_do_not_count() -> None:
    usage = Usage()
    put_vpa(usage, WEB, ContainerRule(container="c0", off=True), c0=Requests(cpu=400))
    put_pod(usage, "web-1", Requests(cpu=100))
    assert balance_by_namespace(usage, CPU) == {"shop": NOTHING}


def test_a_changed_template_applies_to_present_and_later_pods() -> None:
    usage = Usage()
    put_vpa(usage, c0=Requests(cpu=400))
    put_pod(usage, "web-1", Requests(cpu=100))
    put_vpa(usage, c0=Requests(cpu=150))
    put_pod(usage, "web-2", Requests(cpu=100))
    assert balance_by_namespace(usage, CPU) == {"shop": balance(given_back=100)}


def test_a_resized_pod_counts_with_its_present_request() -> None:
    usage = Usage()
    put_vpa(usage, c0=Requests(cpu=400))
    put_pod(usage, "web-1", Requests(cpu=400))
    put_pod(usage, "web-1", Requests(cpu=100))
    assert balance_by_namespace(usage, CPU) == {"shop": balance(given_back=300)}


def test_the_sum_of_the_requests_of_each_aggregate() -> None:
    usage = Usage()
    put_vpa(usage)
    put_pod(usage, "web-1", Requests(memory=100), Requests(memory=7))
    put_pod(usage, "web-2", Requests(memory=300), Requests(memory=7))
    sums, counts = request_sums(usage, MEMORY)
    (first,), (second,) = usage.rows_of(WEB, "c0"), usage.rows_of(WEB, "c1")
    assert (sums[first], counts[first]) == (400, 2)
    assert (sums[second], counts[second]) == (14, 2)
