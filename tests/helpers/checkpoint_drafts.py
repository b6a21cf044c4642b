"""Drafts of checkpoints with the history of a container at given hours."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from recommender.checkpoints.checkpoint_store import CheckpointDraft
from recommender.model.aggregates import Aggregates, HalfLives, History
from recommender.model.keys import VpaKey
from recommender.model.timestamps import instant

START = datetime(2026, 1, 1, tzinfo=UTC)


def history(hours: range, *, millicores: int = 100) -> History:
    """Return the history of a container that had samples in these hours."""
    table = Aggregates(HalfLives())
    rows = np.array([table.new()])
    for hour in hours:
        at = np.array([instant(START + timedelta(hours=hour))])
        table.add_cpu(rows, at, np.array([millicores]))
        table.memory.add(rows, np.array([10**9]), at, 1.0)
    return table.save(rows)[0]


def draft(hours: range, *, key: VpaKey, container: str = "app", **more: Any) -> CheckpointDraft:
    at = START + timedelta(hours=hours.stop)
    return CheckpointDraft(vpa=key, container=container, history=history(hours), at=at, **more)
