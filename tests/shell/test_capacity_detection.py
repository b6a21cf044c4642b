"""The detection of capacity APIs and autoscalers, from the answers of an API server."""

import logging

import pytest

from fake_api import FakeApi, Reply, status
from updater.capacity.capacity_requests import CapacityMode
from updater.capacity.detection import CapacityDetection

GROUP, KARPENTER = "GET /apis/autoscaling.x-k8s.io", "GET /apis/karpenter.sh"
POOLS = "GET /apis/karpenter.sh/v1/nodepools"
STATUS = "GET /api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
VERSIONS = Reply(body={"versions": [{"groupVersion": "g/v1", "version": "v1"}]})
BETA = Reply(body={"versions": [{"version": "v1beta1"}]})
FORBIDDEN = status(403, "Forbidden")
BROKEN = status(500, "InternalError")
NO_POOLS, ONE_POOL = Reply(body={"items": []}), Reply(body={"items": [{"metadata": {}}]})
CONFIG_MAP = Reply(body={"metadata": {"name": "cluster-autoscaler-status"}})
RESOURCES = {
    f"{GROUP}/v1beta1": Reply(
        body={"resources": [{"name": "capacitybuffers"}, {"name": "capacitybuffers/status"}]}
    )
}
AUTO, PROVISION, WAIT, OFF = CapacityMode

ANSWERS = [
    ("nothing is there", {}, WAIT),
    ("capacity buffers", {GROUP: BETA, **RESOURCES}, PROVISION),
    ("a group without them", {GROUP: VERSIONS, f"{GROUP}/v1": Reply(body={"resources": []})}, WAIT),
    ("Karpenter has a NodePool", {KARPENTER: VERSIONS, POOLS: ONE_POOL}, OFF),
    ("Karpenter has none", {KARPENTER: VERSIONS, POOLS: NO_POOLS}, WAIT),
    (
        "a NodePool of an older version",
        {KARPENTER: BETA, "GET /apis/karpenter.sh/v1beta1/nodepools": ONE_POOL},
        OFF,
    ),
    ("Karpenter is older than NodePools", {KARPENTER: BETA}, OFF),
    ("NodePools are forbidden", {KARPENTER: VERSIONS, POOLS: FORBIDDEN}, OFF),
    ("NodePools fail at first", {KARPENTER: VERSIONS, POOLS: BROKEN}, WAIT),
    ("the cluster autoscaler", {STATUS: CONFIG_MAP}, OFF),
    ("its ConfigMap is forbidden", {STATUS: FORBIDDEN}, OFF),
    ("its ConfigMap fails at first", {STATUS: BROKEN}, WAIT),
    ("discovery is forbidden", {GROUP: FORBIDDEN, STATUS: CONFIG_MAP}, OFF),
    ("discovery fails at first", {GROUP: BROKEN, STATUS: CONFIG_MAP}, WAIT),
    ("discovery is malformed at first", {GROUP: Reply(body=[])}, WAIT),
]


@pytest.mark.parametrize(
    ("replies", "mode"), [pytest.param(*case, id=name) for name, *case in ANSWERS]
)
async def test_the_mode_by_answers(replies: dict[str, Reply], mode: CapacityMode) -> None:
    async with FakeApi() as api, api.client() as client:
        for route, reply in replies.items():
            api.on(route, reply)
        detection = CapacityDetection(client, AUTO, sees_all_pods=True)
        found = await detection.refresh(nodes_fresh=True, requests="")
        assert (found.mode, found.awaits_nodes) == (mode, False)


@pytest.mark.parametrize("wanted", [WAIT, OFF])
async def test_a_configured_mode_asks_nothing(wanted: CapacityMode) -> None:
    async with FakeApi() as api, api.client() as client:
        detection = CapacityDetection(client, wanted, sees_all_pods=True)
        assert (await detection.refresh(nodes_fresh=True, requests=None)).mode is wanted
        assert api.requests == []


async def test_a_mode_is_logged_at_each_change(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with FakeApi() as api, api.client() as client:
        detection = CapacityDetection(client, AUTO, sees_all_pods=True)
        for nodes_fresh, requests in ((True, ""), (True, ""), (True, None)):
            await detection.refresh(nodes_fresh=nodes_fresh, requests=requests)
    lines = [line for line in caplog.records if line.message == "check of room before evictions"]
    assert [line.__dict__["mode"] for line in lines] == ["wait"]
    assert lines[0].__dict__["cause"] == "no autoscaler is visible"
