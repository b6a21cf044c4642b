"""The mode of ``--capacity-check`` that passes use, from what the cluster serves."""

from dataclasses import replace

import pytest

from updater.capacity.capacity_requests import CapacityMode
from updater.capacity.detection import CapacityView, Detected, NodeView, effective_mode

AUTO, PROVISION, WAIT, OFF = CapacityMode
BUFFERS = Detected(requests=("capacitybuffers",))
KARPENTER = Detected(autoscaler="Karpenter")
BOTH = Detected(requests=("capacitybuffers",), autoscaler="cluster autoscaler")
UNREADABLE = Detected(unreadable="ConfigMap kube-system/cluster-autoscaler-status")
NOTHING = Detected()
USABLE, NEVER = CapacityView(requests=""), CapacityView(requests=None)
UNREADABLE_NODES = CapacityView(nodes=NodeView.UNREADABLE)
AWAITED_NODES = CapacityView(nodes=NodeView.AWAITED)
FORBIDDEN = CapacityView(requests="CapacityBuffers are forbidden")

MODES = [
    ("auto requests capacity where it can", AUTO, BUFFERS, USABLE, PROVISION),
    ("auto prefers requests to Pending pods", AUTO, BOTH, USABLE, PROVISION),
    ("auto leaves Pending pods to Karpenter", AUTO, KARPENTER, USABLE, OFF),
    ("auto waits without an autoscaler", AUTO, NOTHING, USABLE, WAIT),
    ("auto without the right to look", AUTO, UNREADABLE, USABLE, OFF),
    ("auto without the right to request, and no autoscaler", AUTO, BUFFERS, FORBIDDEN, WAIT),
    ("auto without the right to request, and an autoscaler", AUTO, BOTH, FORBIDDEN, OFF),
    ("auto without a part that requests", AUTO, BUFFERS, NEVER, WAIT),
    ("provision requests capacity where it can", PROVISION, BUFFERS, USABLE, PROVISION),
    ("provision without an API waits", PROVISION, NOTHING, USABLE, WAIT),
    ("provision without an API, and an autoscaler", PROVISION, KARPENTER, USABLE, OFF),
    ("wait waits beside any autoscaler", WAIT, KARPENTER, USABLE, WAIT),
    ("wait needs to look at nothing", WAIT, None, NEVER, WAIT),
    ("off", OFF, BUFFERS, USABLE, OFF),
    ("auto without an answer yet", AUTO, None, USABLE, WAIT),
    ("provision without an answer yet", PROVISION, None, USABLE, WAIT),
    ("nodes are unreadable", WAIT, NOTHING, UNREADABLE_NODES, OFF),
    ("nodes are unreadable to auto", AUTO, BUFFERS, UNREADABLE_NODES, OFF),
    ("nodes aren't listed yet", AUTO, BUFFERS, AWAITED_NODES, WAIT),
    ("nodes aren't listed yet, and Karpenter", AUTO, KARPENTER, AWAITED_NODES, WAIT),
    ("off needs no nodes", OFF, NOTHING, AWAITED_NODES, OFF),
    ("other pods are unknown", WAIT, NOTHING, CapacityView(sees_all_pods=False), OFF),
    (
        "other pods are unknown to provision",
        PROVISION,
        None,
        CapacityView(sees_all_pods=False),
        OFF,
    ),
]


@pytest.mark.parametrize(
    ("wanted", "detected", "view", "mode"), [pytest.param(*case, id=name) for name, *case in MODES]
)
def test_the_mode_of_passes(
    wanted: CapacityMode, detected: Detected | None, view: CapacityView, mode: CapacityMode
) -> None:
    found = effective_mode(wanted, detected, view)
    assert found.mode is mode
    assert found.awaits_nodes is (view is AWAITED_NODES and wanted is not OFF)


KNOWN = [
    ("what is served is known", AUTO, BUFFERS, USABLE, True),
    ("without an answer yet", AUTO, None, USABLE, False),
    ("no answer is needed", WAIT, None, USABLE, True),
    ("nodes aren't listed yet", AUTO, BUFFERS, AWAITED_NODES, False),
    ("nodes are unreadable", AUTO, BUFFERS, UNREADABLE_NODES, True),
]


@pytest.mark.parametrize(
    ("wanted", "detected", "view", "known"), [pytest.param(*case, id=name) for name, *case in KNOWN]
)
def test_passes_that_find_all_demands(
    wanted: CapacityMode, detected: Detected | None, view: CapacityView, *, known: bool
) -> None:
    assert effective_mode(wanted, detected, view).knows_demands is known


FALLBACKS = [
    ("beside an autoscaler", BOTH, OFF),
    ("beside what can't be read", replace(BUFFERS, unreadable="a ConfigMap"), OFF),
    ("without an autoscaler", BUFFERS, WAIT),
]


@pytest.mark.parametrize(
    ("detected", "fallback"), [pytest.param(*case, id=name) for name, *case in FALLBACKS]
)
@pytest.mark.parametrize("wanted", [AUTO, PROVISION])
def test_the_mode_of_workloads_for_which_no_capacity_can_be_requested(
    wanted: CapacityMode, detected: Detected, fallback: CapacityMode
) -> None:
    found = effective_mode(wanted, detected, USABLE)
    assert (found.mode, found.fallback) == (PROVISION, fallback)


def test_the_cause_names_what_prevents_requests() -> None:
    found = effective_mode(AUTO, BOTH, FORBIDDEN)
    assert found.cause == (
        "cluster autoscaler adds nodes for Pending pods; capacity can't be requested: "
        "CapacityBuffers are forbidden"
    )
