"""Evictions, resizes, annotations and Events, as calls to the API server."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod, PodWithSidecars
from common.errors import DecodeError, KubeError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import (
    DAEMON_SETS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VPAS,
    Endpoint,
)
from common.kube.events import NORMAL, WARNING, EventRecorder, reference
from common.kube.targets import ControllerCaches
from common.patches import Operation
from common.recommendation.changes import ResourceChange, patch_changes, summary
from common.target.owners import Controller
from updater.decision import Decision, Reason
from updater.eviction.breaker import BreakerTransition
from updater.snapshot.live_pod import WITHDRAWER

logger = logging.getLogger(__name__)

_RESIZED = "Pod was resized in place by VPA Updater."  # the reference's words
_WOULD_BE_REFUSED = "the API server would refuse its replacement"
_WITHDRAWN = "Pending resize was withdrawn by VPA Updater."


class PodActuator:
    """Carries out what was decided, and reports it.

    Each call is one request. Events follow in the background, in the reference's words with
    the reason code behind them; they never hold up or undo an action.

    Source: updater.md 6.3, 10.6 and 12.1.
    """

    def __init__(self, client: KubeClient, events: EventRecorder) -> None:
        self._client = client
        self._events = events

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Evict this very pod through its disruption budget, with its own grace period.

        A StatefulSet's next pod has the same name, and a call may take its time (X61).

        Raises:
            KubeError: the API server refused, or did not answer.
        """
        meta = pod.metadata
        await self._client.evict(meta.namespace, meta.name, uid=meta.uid)
        sentence = "Pod was evicted by VPA Updater to apply resource recommendation."
        self._events.event(
            reference(PODS, pod.metadata),
            NORMAL,
            "EvictedByVPA",
            _with(reason, sentence, vpa, changes),
        )
        sentence = f"VPA Updater evicted Pod {meta.name} to apply resource recommendation."
        self._events.event(
            reference(VPAS, vpa.metadata),
            NORMAL,
            "EvictedPod",
            _with(reason, sentence, vpa, changes),
        )

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
    ) -> Pod:
        """Resize in place; the pod as it is from then on, of generation 0 if that isn't known.

        Raises:
            KubeError: the API server refused, or did not answer.
        """
        meta, withdraws = pod.metadata, reason is Reason.RESIZE_WITHDRAWN
        try:
            resized = await self._client.resize(
                meta.namespace, meta.name, operations, manager=WITHDRAWER if withdraws else ""
            )
        except DecodeError as error:  # it was carried out all the same
            logger.warning("answer to a resize not understood", extra={"error": str(error)})
            unknown = msgspec.structs.replace(meta, generation=0)
            resized = msgspec.structs.replace(pod, metadata=unknown)
        self._events.event(
            reference(PODS, pod.metadata),
            NORMAL,
            "InPlaceResizedByVPA",
            _with(
                reason,
                _WITHDRAWN if withdraws else _RESIZED,
                vpa,
                patch_changes(pod, operations),
            ),
        )
        return resized

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        """Mark a resized pod. A failure is only logged: the resize was done."""
        meta = pod.metadata
        try:
            await self._client.patch(
                PODS,
                meta.name,
                operations,
                patch_type=PatchType.JSON,
                namespace=meta.namespace,
            )
        except (KubeError, DecodeError) as error:
            logger.warning(
                "resized pod not marked",
                extra={"pod": f"{meta.namespace}/{meta.name}", "error": str(error)},
            )

    def report_blocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
        *,
        detail: str,
        skipped: bool,
    ) -> None:
        """Report that a pod can't be updated in place, and why; ``detail`` has the numbers.

        ``skipped`` adds the reference's Event of a pod that waits for a smaller recommendation.
        """
        if skipped:
            self._events.event(
                reference(PODS, pod.metadata),
                NORMAL,
                "InPlaceResizeSkipped",
                _with(
                    Reason.INFEASIBLE_CACHED,
                    "Previously recorded in-place update was infeasible, current recommendation "
                    "is not lower than previous, skipping resize",
                    vpa,
                    changes,
                ),
            )
        cause = reason.meaning.removesuffix(".") + (f": {detail}." if detail else ".")
        text = _with(reason, f"is blocked: {cause[0].lower()}{cause[1:]}", vpa, changes)
        self._report_both(pod, vpa, WARNING, "InPlaceResizeBlocked", text)

    def report_unblocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Report that what blocked a pod's in-place update is over."""
        text = _with(reason, "is no longer blocked.", vpa, changes)
        self._report_both(pod, vpa, NORMAL, "InPlaceResizeUnblocked", text)

    def _report_both(
        self, pod: Pod, vpa: VerticalPodAutoscaler, type: str, name: str, text: str
    ) -> None:
        """Send an Event about the pod, and one about its VPA that names the pod."""
        about = reference(VPAS, vpa.metadata)
        self._events.event(reference(PODS, pod.metadata), type, name, f"In-place update {text}")
        self._events.event(about, type, name, f"In-place update of Pod {pod.metadata.name} {text}")

    def report_skipped_eviction(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        decision: Decision,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Emit an Event that a pod is not evicted because of the pod that would follow."""
        lacks = decision.reason is Reason.REPLACEMENT_LACKS_RECOMMENDATION
        cause = "its replacement would be no better" if lacks else _WOULD_BE_REFUSED
        text = f"Pod is not evicted, {cause}: {decision.detail}."
        text = _with(decision.reason, text, vpa, changes)
        self._events.event(reference(PODS, pod.metadata), NORMAL, "EvictionSkipped", text)

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        """Report that a VPA's evictions are suspended or go on, in the log as well.

        That is about the VPA as a whole, so there is no change to name.
        """
        meta = vpa.metadata
        about = {"vpa": f"{meta.namespace}/{meta.name}", "cause": cause}
        if transition is BreakerTransition.RESUMED:
            logger.info("evictions resumed", extra=about)
            text = f"{cause} {_about(vpa)}"
            self._events.event(reference(VPAS, meta), NORMAL, "EvictionsResumed", text)
        else:
            logger.warning("evictions suspended", extra=about)
            text = _with(Reason.ACTUATION_SUSPENDED, cause, vpa)
            self._events.event(reference(VPAS, meta), WARNING, "EvictionsSuspended", text)


class TemplatePods:
    """Pods that controllers would make of their templates, created in a dry run.

    A custom controller may make its pods of anything, so its pods are not tried.
    """

    def __init__(self, client: KubeClient, controllers: ControllerCaches) -> None:
        self._client = client
        self._controllers = controllers

    def supports(self, controller: Controller) -> bool:
        """Return whether the controller makes its pods from a template that can be read."""
        return controller.is_well_known and controller.kind in _TEMPLATES

    def generation(self, controller: Controller) -> int:
        """Return the generation of the controller; 0 if it is not known."""
        found = self._controllers.find(controller)
        return 0 if found is None else found.metadata.generation

    async def create(self, pod: Pod, controller: Controller) -> Pod:
        """Create the pod that would take the place of ``pod``, in a dry run.

        Raises:
            KubeError: the API server refused it, or did not answer.
            DecodeError: the answer can't be read.
        """
        owner = await self._client.get(
            _TEMPLATES[controller.kind], controller.name, namespace=controller.namespace
        )
        return await self._client.create(
            _PODS_WITH_SIDECARS if pod.spec.scales_sidecars else PODS,
            pod_of_template(owner, pod, controller),
            namespace=controller.namespace,
            dry_run=True,
        )


_PODS_WITH_SIDECARS: Endpoint[Pod] = Endpoint(
    PODS.group, PODS.version, PODS.resource, PODS.kind, PodWithSidecars
)
_TEMPLATES = {
    endpoint.kind: endpoint.as_dicts()
    for endpoint in (DAEMON_SETS, JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
}
_LABELS = (  # that controllers add to their pods; some templates have them already
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
)


def pod_of_template(owner: Mapping[str, Any], pod: Pod, controller: Controller) -> dict[str, Any]:
    """Return the pod that a controller would create in place of ``pod``.

    Its name is generated for each kind: one that keeps its pods' names would collide with the
    pod that is still there.
    """
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    present = pod.metadata.labels or {}
    added = {name: present[name] for name in _LABELS if name in present}
    reference = {
        "apiVersion": controller.api_version,
        "kind": controller.kind,
        "name": controller.name,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {
        "metadata": {
            "generateName": f"{controller.name}-",
            "namespace": controller.namespace,
            "labels": added | (meta.get("labels") or {}),
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [reference],
        },
        "spec": template["spec"] | _identity(owner, pod, controller),
    }


def _identity(owner: Mapping[str, Any], pod: Pod, controller: Controller) -> dict[str, Any]:
    """Return what a StatefulSet adds to the spec: a host name, a subdomain, and the pod's claims.

    A claim takes the place of a volume that the template calls the same.

    Source: ``initIdentity`` and ``updateStorage``, k8s.io/kubernetes
    pkg/controller/statefulset/stateful_set_utils.go.
    """
    if controller.kind != "StatefulSet":
        return {}
    name, spec = pod.metadata.name, owner["spec"]
    added = {"hostname": name, "subdomain": spec.get("serviceName") or ""}
    names = dict.fromkeys(
        each["metadata"]["name"] for each in spec.get("volumeClaimTemplates") or ()
    )
    if not names:
        return added
    claims = [
        {"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in names
    ]
    volumes = spec["template"]["spec"].get("volumes") or ()
    return added | {"volumes": [*claims, *(each for each in volumes if each["name"] not in names)]}


def _with(
    reason: Reason,
    sentence: str,
    vpa: VerticalPodAutoscaler,
    changes: Sequence[ResourceChange] = (),
) -> str:
    """Append what the reference's sentence lacks: the reason code, the VPA, and the change."""
    return f"{sentence} [{reason.value}] {_about(vpa, changes)}"


def _about(vpa: VerticalPodAutoscaler, changes: Sequence[ResourceChange] = ()) -> str:
    change = f"; {summary(changes)}" if changes else ""
    return f"(VPA {vpa.metadata.name}{change})"
