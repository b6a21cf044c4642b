"""What the cluster keeps of a VPA: recommendations, checkpoints, and the VPAs themselves."""

from dataclasses import dataclass
from typing import Any

from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import CHECKPOINTS, VPAS
from e2e.pods import Object
from reference.workloads import NAMESPACE

VALUES = ("target", "lowerBound", "upperBound", "uncappedTarget")


@dataclass(frozen=True)
class History:
    """The stored results of a recommender."""

    vpas: dict[str, Any]  # uid and spec by name
    recommendations: dict[str, Object]  # the four values by VPA and container
    conditions: dict[str, set[str]]  # the types of True ones by VPA
    checkpoints: dict[str, Object]  # status by VPA and container
    annotations: dict[str, Object]  # of checkpoints


async def read(client: KubeClient) -> History:
    """Return what is stored now."""
    vpas = (await client.list(VPAS.as_dicts(), namespace=NAMESPACE)).items
    checkpoints = (await client.list(CHECKPOINTS.as_dicts(), namespace=NAMESPACE)).items
    return History(
        vpas={one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]) for one in vpas},
        recommendations={
            f"{vpa['metadata']['name']}/{one['containerName']}": {key: one[key] for key in VALUES}
            for vpa in vpas
            for one in _recommendations(vpa)
        },
        conditions={
            vpa["metadata"]["name"]: {
                one["type"]
                for one in vpa.get("status", {}).get("conditions") or ()
                if one["status"] == "True"
            }
            for vpa in vpas
        },
        checkpoints={_key(one): _content(one["status"]) for one in checkpoints},
        annotations={_key(one): one["metadata"].get("annotations") or {} for one in checkpoints},
    )


async def clear_recommendation(client: KubeClient, vpa: str) -> None:
    """Remove the recommendation of a VPA, so that the recommender has to compute it."""
    await client.patch(
        VPAS.as_dicts(),
        vpa,
        {"status": {"recommendation": None}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )


def differences(before: History, after: History) -> list[str]:
    """Return each VPA and each recommendation that isn't the same."""
    return [
        f"{key}: {was.get(key)} is now {now.get(key)}"
        for was, now in (
            (before.vpas, after.vpas),
            (before.recommendations, after.recommendations),
        )
        for key in sorted(was.keys() | now.keys())
        if was.get(key) != now.get(key)
    ]


def lost(before: History, after: History) -> list[str]:
    """Return what checkpoints contained before, and don't contain any more.

    The running window of memory isn't in a checkpoint, so its weight may differ by one peak.
    """
    found = []
    for key, old in before.checkpoints.items():
        new = after.checkpoints.get(key)
        if new is None:
            found.append(f"{key}: the checkpoint")
            continue
        if new["firstSampleStart"] != old["firstSampleStart"]:
            found.append(f"{key}: its start, {old['firstSampleStart']}")
        if new.get("totalSamplesCount", 0) < old.get("totalSamplesCount", 0):
            found.append(f"{key}: samples, {old['totalSamplesCount']}")
        for histogram in ("cpuHistogram", "memoryHistogram"):
            was, now = (one[histogram].get("totalWeight", 0) for one in (old, new))
            if now < was * 0.999:  # rounded in each checkpoint
                found.append(f"{key}: weight of its {histogram}, {was} is now {now}")
    return found


def _recommendations(vpa: Object) -> list[Object]:
    recommendation = vpa.get("status", {}).get("recommendation") or {}
    found: list[Object] = recommendation.get("containerRecommendations") or []
    return found


def _content(status: Object) -> Object:
    """Return a status without the time of its last write."""
    return {key: value for key, value in status.items() if key != "lastUpdateTime"}


def _key(checkpoint: Object) -> str:
    return f"{checkpoint['spec']['vpaObjectName']}/{checkpoint['spec']['containerName']}"
