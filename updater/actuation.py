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
from common.recommendation.resource_changes import ResourceChange, patch_changes, summary
from common.target.owners import Controller
from updater.decision import Reason
from updater.eviction.breaker import BreakerTransition
from updater.plan.pod_outcome import EvictionSkipped, PodEvent, ResizeUnblocked
from updater.snapshot.live_pod import WITHDRAWER
from updater.state import ResizeBlocked

logger = logging.getLogger(__name__)

_RESIZED = "Pod was resized in place by VPA Updater."  # the reference's words
_SKIPPED_BECAUSE = {
    Reason.REPLACEMENT_WOULD_BE_REFUSED: "the API server would refuse its replacement",
    Reason.REPLACEMENT_LACKS_RECOMMENDATION: "its replacement would be no better",
    Reason.NO_CAPACITY: "no node has room",
    Reason.CAPACITY_REQUESTED: "room is requested",
    Reason.CAPACITY_REFUSED: "no room was provided",
}
_LONGEST_DETAIL = 400  # characters; an Event's message may have 1024
_WITHDRAWN = "Pending resize was withdrawn by VPA Updater."
_SKIPPED = (
    "Previously recorded in-place update was infeasible, current recommendation is not lower than "
    "previous, skipping resize"
)


class PodActuator:
    """Carries out decisions, and reports them.

    Each call is one request. Events are sent in the background, in the reference's words followed
    by the reason code. Their failure doesn't affect the action.

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
        """Evict the pod through its PodDisruptionBudget, with its own grace period.

        The UID is a precondition, because a StatefulSet's next pod has the same name (X61).

        Raises:
            KubeError: the API server refused, or did not answer.
        """
        meta = pod.metadata
        await self._client.evict(meta.namespace, meta.name, uid=meta.uid)
        sentence = "Pod was evicted by VPA Updater to apply resource recommendation."
        text = _with(reason, sentence, vpa, changes)
        self._events.event(reference(PODS, meta), NORMAL, "EvictedByVPA", text)
        sentence = f"VPA Updater evicted Pod {meta.name} to apply resource recommendation."
        text = _with(reason, sentence, vpa, changes)
        self._events.event(reference(VPAS, vpa.metadata), NORMAL, "EvictedPod", text)

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
        *,
        detail: str = "",
    ) -> Pod:
        """Resize the pod in place, and return the new pod; its generation is 0 if unknown.

        ``detail`` has the numbers of the rest that follows, for the Event.

        Raises:
            KubeError: the API server refused, or did not answer.
        """
        meta, withdraws = pod.metadata, reason is Reason.RESIZE_WITHDRAWN
        try:
            resized = await self._client.resize(
                meta.namespace, meta.name, operations, manager=WITHDRAWER if withdraws else ""
            )
        except DecodeError as error:  # the resize was carried out
            logger.warning("answer to a resize not understood", extra={"error": str(error)})
            unknown = msgspec.structs.replace(meta, generation=0)
            resized = msgspec.structs.replace(pod, metadata=unknown)
        sentence = _WITHDRAWN if withdraws else _RESIZED
        if detail:
            sentence += f" {detail[0].upper()}{detail[1:_LONGEST_DETAIL]}."
        text = _with(reason, sentence, vpa, patch_changes(pod, operations))
        self._events.event(reference(PODS, meta), NORMAL, "InPlaceResizedByVPA", text)
        return resized

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        """Change the annotations of a resized pod; a failure is only logged."""
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

    def report(self, pod: Pod, vpa: VerticalPodAutoscaler, event: PodEvent) -> None:
        """Emit the Events of a change of a pod's state.

        A resize that is ``skipped`` also gets the reference's Event for a pod that waits for a
        smaller recommendation.
        """
        about = reference(PODS, pod.metadata)
        match event:
            case ResizeBlocked(reason, changes, detail, skipped):
                if skipped:
                    text = _with(Reason.INFEASIBLE_CACHED, _SKIPPED, vpa, changes)
                    self._events.event(about, NORMAL, "InPlaceResizeSkipped", text)
                cause = reason.meaning.removesuffix(".") + (f": {detail}." if detail else ".")
                text = _with(reason, f"is blocked: {cause[0].lower()}{cause[1:]}", vpa, changes)
                self._report_both(pod, vpa, WARNING, "InPlaceResizeBlocked", text)
            case ResizeUnblocked(reason, changes):
                text = _with(reason, "is no longer blocked.", vpa, changes)
                self._report_both(pod, vpa, NORMAL, "InPlaceResizeUnblocked", text)
            case EvictionSkipped(decision, changes):
                cause = _SKIPPED_BECAUSE[decision.reason]
                text = f"Pod is not evicted, {cause}: {decision.detail}."
                text = _with(decision.reason, text, vpa, changes)
                self._events.event(about, NORMAL, "EvictionSkipped", text)

    def _report_both(
        self, pod: Pod, vpa: VerticalPodAutoscaler, type: str, name: str, text: str
    ) -> None:
        """Send an Event about the pod, and one about its VPA that names the pod."""
        about = reference(VPAS, vpa.metadata)
        self._events.event(reference(PODS, pod.metadata), type, name, f"In-place update {text}")
        self._events.event(about, type, name, f"In-place update of Pod {pod.metadata.name} {text}")

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        """Log and report that a VPA's evictions are suspended or resumed."""
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
    """Creates pods from the templates of well-known controllers in a dry run."""

    def __init__(self, client: KubeClient, controllers: ControllerCaches) -> None:
        self._client = client
        self._controllers = controllers

    def supports(self, controller: Controller) -> bool:
        """Return whether the controller's kind has a known pod template."""
        return controller.is_well_known and controller.kind in _TEMPLATES

    def generation(self, controller: Controller) -> int:
        """Return the generation of the controller; 0 if unknown."""
        found = self._controllers.find(controller)
        return 0 if found is None else found.metadata.generation

    async def create(self, pod: Pod, controller: Controller) -> Pod:
        """Create the replacement of ``pod`` in a dry run.

        Raises:
            KubeError: the API server refused it, or did not answer.
            DecodeError: the answer is malformed.
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
_LABELS = (  # that controllers add to their pods
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
)


def pod_of_template(owner: Mapping[str, Any], pod: Pod, controller: Controller) -> dict[str, Any]:
    """Return the pod that a controller would create in place of ``pod``.

    Its name is generated, also for a StatefulSet, because ``pod`` still exists.
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
    """Return the fields that a StatefulSet adds to the spec: host name, subdomain and volumes.

    A claim replaces a volume of the same name.

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
    """Return the sentence followed by the reason code, the VPA, and the changes."""
    return f"{sentence} [{reason.value}] {_about(vpa, changes)}"


def _about(vpa: VerticalPodAutoscaler, changes: Sequence[ResourceChange] = ()) -> str:
    change = f"; {summary(changes)}" if changes else ""
    return f"(VPA {vpa.metadata.name}{change})"
