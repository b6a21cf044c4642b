"""The rule or annotation that determines a pod's usage and faults."""

from typing import Any

import msgspec
import pytest

from sandbox.kubelet.faults import Faults, ResizeFault, faults_of
from sandbox.kubelet.loads import Match, UsageRule, load_of
from sandbox.kubelet.usage import Constant, Load, Ramp
from sandbox.kubelet.wire import RunnablePod


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
        ({"labels": {"app": "web"}}, True),
        ({"labels": {"app": "web", "tier": "1"}}, False),
    ],
    ids=str,
)
def test_match(raw: dict[str, Any], fits: bool) -> None:  # noqa: FBT001 - a column of the table
    assert Match(**raw).fits(pod()) is fits


def usage(**fields: Any) -> UsageRule:
    return UsageRule.parse(fields, "usage[0]")


def test_the_first_rule_that_names_a_resource_counts() -> None:
    rules = [
        usage(cpu="1", match={"namespace": "other"}),
        usage(cpu="20m"),
        usage(cpu="30m", memory="30"),
    ]
    assert load_of(pod(), rules) == Load(cpu=Constant(20.0), memory=Constant(30.0))


def test_without_any_rule_usage_is_small() -> None:
    assert load_of(pod(), []) == Load()


def test_annotations_take_precedence_over_rules() -> None:
    annotated = pod(**{"usage.sandbox__cpu": "5m"})
    assert load_of(annotated, [usage(cpu="20m")]).cpu == Constant(5.0)


def test_an_annotation_can_contain_a_model() -> None:
    text = '{"ramp": {"from": "1", "to": "2", "over": "10s"}}'
    found = load_of(pod(**{"usage.sandbox__cpu": text}), [])
    assert found.cpu == Ramp(start=1000.0, end=2000.0, after=0.0, over=10.0)


@pytest.mark.parametrize("text", ["fast", "{", '{"ramp": {}}'])
def test_an_annotation_with_an_invalid_model_is_ignored(text: str) -> None:
    assert load_of(pod(**{"usage.sandbox__cpu": text}), [usage(cpu="20m")]).cpu == Constant(20.0)


def test_annotations_are_switches_and_invalid_ones_are_ignored() -> None:
    annotated = pod(
        **{
            "kubelet.sandbox__ready-delay": "never",
            "kubelet.sandbox__stop-delay": "1m",
            "kubelet.sandbox__resize": "stuck",
            "kubelet.sandbox__start-delay": "soon",
            "kubelet.sandbox__speed": "9",
        }
    )
    assert faults_of(annotated) == Faults(
        resize=ResizeFault.STUCK,
        ready_delay=float("inf"),
        stop_delay=60.0,
    )
