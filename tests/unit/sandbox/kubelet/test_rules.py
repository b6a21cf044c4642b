"""Which rule, or annotation, decides on a pod's usage and faults."""

from typing import Any

import msgspec
import pytest

from sandbox.description import Section
from sandbox.kubelet.faults import FaultRule, Faults, ResizeFault, faults_of
from sandbox.kubelet.loads import UsageRule, load_of
from sandbox.kubelet.usage import Constant, Load, Ramp
from sandbox.kubelet.wire import RunnablePod
from sandbox.matching import Match


def pod(**annotations: str) -> RunnablePod:
    raw: dict[str, Any] = {
        "metadata": {
            "namespace": "shop",
            "name": "web-7d9f-x2x",
            "labels": {"app": "web"},
            "annotations": {
                key.replace("__", "/").replace("_", "-"): text for key, text in annotations.items()
            },
        },
        "spec": {"nodeName": "node-1"},
    }
    return msgspec.convert(raw, RunnablePod)


@pytest.mark.parametrize(
    ("raw", "fits"),
    [
        ({}, True),
        ({"namespace": "shop"}, True),
        ({"namespace": "sho"}, False),
        ({"pod": "web-*"}, True),
        ({"pod": "web-?"}, False),
        ({"node": "node-1"}, True),
        ({"node": "node-2"}, False),
        ({"labels": {"app": "web"}}, True),
        ({"labels": {"app": "web", "tier": "1"}}, False),
    ],
    ids=str,
)
def test_match(raw: dict[str, Any], fits: bool) -> None:  # noqa: FBT001 - a column of the table
    rule = FaultRule(match=Match.parse(Section(raw, "match")), faults=Faults(exit_code=1))
    assert (faults_of(pod(), [rule]).exit_code == 1) is fits


def usage(**fields: Any) -> UsageRule:
    return UsageRule.parse(Section(fields, "usage[0]"))


def test_the_first_rule_that_names_a_resource_decides_on_it() -> None:
    rules = [
        usage(cpu="1", match={"namespace": "other"}),
        usage(cpu="20m"),
        usage(cpu="30m", memory="30"),
    ]
    assert load_of(pod(), "app", rules) == Load(cpu=Constant(20.0), memory=Constant(30.0))


def test_without_any_rule_usage_is_small() -> None:
    assert load_of(pod(), "app", []) == Load()


def test_a_rule_may_be_about_one_container() -> None:
    rules = [usage(cpu="20m", match={"container": "side*"})]
    assert load_of(pod(), "sidecar", rules).cpu == Constant(20.0)
    assert load_of(pod(), "app", rules).cpu == Load().cpu


def test_annotations_win_over_rules_and_one_container_over_all() -> None:
    annotated = pod(**{"usage.sandbox__cpu": "5m", "usage.sandbox__app.cpu": "7m"})
    rules = [usage(cpu="20m")]
    assert load_of(annotated, "app", rules).cpu == Constant(7.0)
    assert load_of(annotated, "other", rules).cpu == Constant(5.0)


def test_an_annotation_may_hold_a_model() -> None:
    text = '{"ramp": {"from": "1", "to": "2", "over": "10s"}}'
    found = load_of(pod(**{"usage.sandbox__cpu": text}), "app", [])
    assert found.cpu == Ramp(start=1000.0, end=2000.0, after=0.0, over=10.0)


@pytest.mark.parametrize("text", ["fast", "{", '{"ramp": {}}'])
def test_an_annotation_that_is_no_model_is_passed_over(text: str) -> None:
    assert load_of(pod(**{"usage.sandbox__cpu": text}), "app", [usage(cpu="20m")]).cpu == Constant(
        20.0
    )


def test_faults_add_up_and_annotations_win() -> None:
    anywhere = Match(labels={})
    rules = [
        FaultRule(match=anywhere, faults=Faults(resize=ResizeFault.STUCK, exit_code=3)),
        FaultRule(match=anywhere, faults=Faults(resize=ResizeFault.ERROR, stop_delay=9.0)),
    ]
    annotated = pod(**{"kubelet.sandbox__exit-code": "5", "kubelet.sandbox__ready-delay": "never"})
    assert faults_of(annotated, rules) == Faults(
        resize=ResizeFault.STUCK, exit_code=5, stop_delay=9.0, ready_delay=float("inf")
    )
