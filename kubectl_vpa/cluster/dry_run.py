"""A real call of the webhook: a pod like one of a VPA, created in a dry run."""

from collections.abc import Mapping, Sequence
from typing import Any

from common.annotations import OBSERVED_CONTAINERS, VPA_UPDATES
from common.api.autoscaling import UpdateMode
from common.errors import DecodeError, KubeError
from common.kube.endpoints import PODS
from common.target.controlling import mode_of
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.findings import DryRun
from kubectl_vpa.judge.vpa_fields import has_recommendation
from kubectl_vpa.judge.vpa_status import VpaFacts

_OURS = ("vpa",)  # prefixes of the annotations that the webhook sets
_NOT_CREATED = ("nodeName", "ephemeralContainers")  # fields that a new pod doesn't have


async def try_webhook(reader: Reader, vpas: Sequence[VpaFacts]) -> DryRun | None:
    """Create a copy of a pod in a dry run; None if no VPA has a pod that it would change.

    The API server calls the webhook and stores nothing.
    """
    for facts in vpas:
        if not _changes_new_pods(facts):
            continue
        meta = facts.vpa.metadata
        name = f"{meta.namespace}/{meta.name}"
        group = next(iter(facts.groups or ()))
        try:
            stored = await reader.client.get(
                PODS.as_dicts(), group.pod.metadata.name, namespace=meta.namespace
            )
            answer = await reader.client.create(
                PODS.as_dicts(), copied(stored), namespace=meta.namespace, dry_run=True
            )
        except (KubeError, DecodeError) as error:
            return DryRun(vpa=name, refused=str(error))
        annotations = answer["metadata"].get("annotations") or {}
        patched = OBSERVED_CONTAINERS in annotations or VPA_UPDATES in annotations
        return DryRun(vpa=name, patched=patched)
    return None


def copied(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new pod with the spec of another, and without what the webhook set in it."""
    meta = pod["metadata"]
    annotations = {
        name: value
        for name, value in (meta.get("annotations") or {}).items()
        if not name.startswith(_OURS)
    }
    spec = {name: value for name, value in pod["spec"].items() if name not in _NOT_CREATED}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "vpa-doctor-",
            "labels": meta.get("labels") or {},
            "annotations": annotations,
            "ownerReferences": meta.get("ownerReferences") or [],
        },
        "spec": spec,
    }


def _changes_new_pods(facts: VpaFacts) -> bool:
    return (
        bool(facts.groups)
        and not facts.controlled_by
        and mode_of(facts.vpa) != UpdateMode.OFF
        and has_recommendation(facts.vpa.status)
    )
