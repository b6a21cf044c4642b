"""Recommendations from checkpoints, estimated as the recommender does."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from common.api.core import Pod
from common.target.owners import Controller
from kubectl_vpa.cluster.checkpoints import read_histories
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.workloads import Vpas
from kubectl_vpa.judge.usage_model import StoredVpa, recommended, usage_of
from recommender.sources.conversion import vpa_key


async def recommended_by_checkpoints(
    reader: Reader, vpas: Vpas, pods: Mapping[Controller, Sequence[Pod]], now: datetime
) -> Vpas:
    """Return those VPAs whose checkpoints have usage, with a recommendation in their status.

    ``pods`` has one pod of each kind of a workload. The recommendation is what the recommender
    publishes if it knows nothing but the checkpoints.
    """
    histories = await read_histories(reader) or ()
    stored = [StoredVpa(vpa=vpa, pods=pods.get(each, ())) for each, vpa in vpas.items()]
    usage = usage_of(stored, histories, now)
    statuses = recommended(usage, tuple(vpas.values()), now)
    return {
        controller: replace(vpa, status=status)
        for controller, vpa in vpas.items()
        if (status := statuses.get(vpa_key(vpa)))
    }
