"""What stands between a valid request and the store: the admission chain.

Mutating admission runs on the decoded and defaulted object, then the object's fields are
validated (not here), then validating admission runs, in the order of a real API server
(k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go; kubernetes-resize.md 1.3).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from common.runtime.clock import Clock
from sandbox.admission import quotas
from sandbox.admission.limit_ranger import apply_defaults, broken_bounds
from sandbox.admission.node_checks import check_node
from sandbox.admission.request import AdmissionRequest, Operation, UserInfo
from sandbox.admission.webhook_answers import Answer, CallError
from sandbox.admission.webhook_rules import Webhook, is_exempt
from sandbox.admission.webhooks import WebhookCaller
from sandbox.errors import ApiError, field_forbidden, forbidden, internal, invalid
from sandbox.objects import defaults
from sandbox.objects.pod_resources import qos_class
from sandbox.objects.resources import (
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from sandbox.objects.store import Store
from sandbox.patching import OperationError, apply_operations, copied
from sandbox.version import KubernetesVersion

__all__ = ["Admission", "AdmissionRequest", "Operation", "UserInfo"]

logger = logging.getLogger(__name__)


class Admission:
    """The admission chain of one API server.

    ``checks_nodes`` False is an API server of 1.36 without the plugin PodResizeValidator.
    """

    def __init__(
        self,
        store: Store,
        version: KubernetesVersion,
        clock: Clock,
        *,
        checks_nodes: bool = True,
    ) -> None:
        self._store = store
        self._version = version
        self._clock = clock
        self._checks_nodes = checks_nodes and version.minor >= 36
        self._caller = WebhookCaller(minor=version.minor)
        self._hooks: dict[str, tuple[object, tuple[Webhook, ...]]] = {}

    async def mutate(self, request: AdmissionRequest) -> dict[str, Any] | None:
        """Fill in defaults and ask the mutating webhooks; ``request.object`` is consumed.

        Returns the object to go on with, which also becomes ``request.object``. For a resize
        the fields that a resize may not touch are reset *after* this step.

        Raises:
            ApiError: a webhook refused, or could not be called and may not be missed.
        """
        self._apply_limit_ranges(request)
        if is_exempt(request.resource):
            return request.object
        hooks = self._webhooks(MUTATING_WEBHOOKS)
        if not hooks:
            return request.object
        again = await self._first_round(hooks, request)
        if again:
            self._apply_limit_ranges(request)
            for hook in again:
                if hook.wants(request, self._namespace_labels(request)):
                    await self._mutate_by(hook, request)
        return request.object

    async def validate(self, request: AdmissionRequest) -> None:
        """Ask the validating plugins and webhooks; quota is charged here, unless dry run.

        Raises:
            ApiError: 403 of a plugin, or whatever a webhook said.
        """
        _refuse_unsupported(request)
        self._check_limit_ranges(request)
        if request.is_pod_resize and self._checks_nodes:
            check_node(_present(request.old_object), _present(request.object), self._node)
        if not is_exempt(request.resource):
            await self._ask_validating(request)
        self._charge_quotas(request)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()

    async def _first_round(
        self, hooks: tuple[Webhook, ...], request: AdmissionRequest
    ) -> list[Webhook]:
        """Ask every webhook that matches; returns those to ask once more.

        A webhook with reinvocation is asked again when a later one changed the object; one
        that was not asked in this round never is.
        """
        asked: list[Webhook] = []
        again: list[Webhook] = []
        for hook in hooks:
            if not hook.wants(request, self._namespace_labels(request)):
                continue
            if await self._mutate_by(hook, request):
                again += asked
                asked = []
            if hook.reinvoked:
                asked.append(hook)
        return again

    async def _mutate_by(self, hook: Webhook, request: AdmissionRequest) -> bool:
        """Ask one webhook and apply its patch; whether the object has changed."""
        answer = await self._ask(hook, request, mutating=True)
        if not answer.operations or request.object is None:
            return False
        before = request.object
        try:
            after = apply_operations(copied(before), answer.operations)
        except OperationError as error:
            raise internal(str(error)) from error
        if not isinstance(after, dict):
            raise internal(f'admission webhook "{hook.name}" replaced the object by something else')
        try:
            defaults.fill(request.resource, after)
        except ApiError as error:
            # Without the words about the kind that a client would read of its own body.
            told = error.message.partition(f" cannot be handled as a {request.resource.kind}: ")
            raise internal(told[2] or error.message) from error
        request.object = after
        return after != before

    async def _ask_validating(self, request: AdmissionRequest) -> None:
        hooks = [
            hook
            for hook in self._webhooks(VALIDATING_WEBHOOKS)
            if hook.wants(request, self._namespace_labels(request))
        ]
        answers = await asyncio.gather(
            *(self._ask(hook, request, mutating=False) for hook in hooks), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _ask(self, hook: Webhook, request: AdmissionRequest, *, mutating: bool) -> Answer:
        try:
            answer = await self._caller.call(hook, request, mutating=mutating)
        except CallError as error:
            if hook.ignores_failures:
                logger.warning("webhook failed, failing open", extra={"error": str(error)})
                return Answer()
            raise internal(str(error)) from error
        request.warnings += answer.warnings
        return answer

    def _webhooks(self, resource: Resource) -> tuple[Webhook, ...]:
        """All webhooks, ordered by the names of their configurations; decoded once."""
        stored = self._store.list(resource)
        versions = tuple(one.version for one in stored)
        known = self._hooks.get(resource.plural)
        if known is None or known[0] != versions:
            found = tuple(
                hook for one in stored for hook in Webhook.of_configuration(one.object(resource))
            )
            known = self._hooks[resource.plural] = (versions, found)
        return known[1]

    def _namespace_labels(self, request: AdmissionRequest) -> Mapping[str, str] | None:
        if request.resource.group_resource == "namespaces":
            obj = request.object or request.old_object or {}
            return (obj.get("metadata") or {}).get("labels") or {}
        if not request.resource.namespaced:
            return None
        namespace = self._store.get(NAMESPACES, "", request.namespace)
        return namespace.labels if namespace is not None else {}

    def _apply_limit_ranges(self, request: AdmissionRequest) -> None:
        if request.object is not None and self._limits_apply(request):
            apply_defaults(request.object, self._limit_ranges(request.namespace))
            status = request.object.get("status")
            if status and request.operation is Operation.CREATE:  # a resize keeps the class
                status["qosClass"] = str(qos_class(request.object))

    def _check_limit_ranges(self, request: AdmissionRequest) -> None:
        if request.object is None or not self._limits_apply(request):
            return
        for limit_range in self._limit_ranges(request.namespace):
            problem = broken_bounds(request.object, limit_range)
            if problem:
                raise forbidden(PODS, _name(request), problem)

    def _limits_apply(self, request: AdmissionRequest) -> bool:
        if (request.old_object or {}).get("metadata", {}).get("deletionTimestamp"):
            return False
        return request.is_pod_create or request.is_pod_resize

    def _limit_ranges(self, namespace: str) -> list[dict[str, Any]]:
        return [one.object(LIMIT_RANGES) for one in self._store.list(LIMIT_RANGES, namespace)]

    def _node(self, name: str) -> dict[str, Any] | None:
        stored = self._store.get(NODES, "", name)
        return stored.object(NODES) if stored is not None else None

    def _charge_quotas(self, request: AdmissionRequest) -> None:
        """Refuse a pod that no longer fits; otherwise count it at once, before it is stored."""
        pod = request.object
        if pod is None or not (request.is_pod_create or request.is_pod_resize):
            return
        stored = self._store.list(RESOURCE_QUOTAS, request.namespace)
        if not stored:
            return
        now = self._clock.now()
        increase = quotas.pod_usage(pod, now)
        if request.old_object is not None:
            increase = quotas.difference(increase, quotas.pod_usage(request.old_object, now))
        changed = []
        for one in stored:
            quota = one.object(RESOURCE_QUOTAS)
            if not quotas.in_scope(quota, pod):
                continue
            missing = quotas.missing_resources(quota, pod)
            if missing:
                text = f"failed quota: {one.name}: must specify {missing}"
                raise forbidden(request.resource, _name(request), text)
            problem = quotas.exceeded(quota, increase)
            if problem:
                raise forbidden(request.resource, _name(request), problem)
            used = quotas.charged(quota, increase)
            if used is not None:
                quota["status"]["used"] = used
                changed.append(quota)
        if not request.dry_run:
            for quota in changed:
                self._store.update(RESOURCE_QUOTAS, quota)


def _refuse_unsupported(request: AdmissionRequest) -> None:
    """What would be stored and then not obeyed is refused, so that nobody relies on it."""
    obj = request.object
    if obj is None or request.subresource:
        return
    causes = []
    if request.resource.group_resource == RESOURCE_QUOTAS.group_resource:
        spec = obj.get("spec") or {}
        if spec.get("scopeSelector"):
            causes.append(field_forbidden("spec.scopeSelector", _NOT_SIMULATED))
        if set(spec.get("scopes") or ()) - set(quotas.SCOPES):
            causes.append(field_forbidden("spec.scopes", _NOT_SIMULATED))
    if is_exempt(request.resource):
        causes += [
            field_forbidden(f"webhooks[{index}].matchConditions", _NOT_SIMULATED)
            for index, hook in enumerate(obj.get("webhooks") or ())
            if hook.get("matchConditions")
        ]
    if causes:
        raise invalid(request.resource.kind, _name(request), causes, group=request.resource.group)


_NOT_SIMULATED = "the sandbox does not enforce this"


def _name(request: AdmissionRequest) -> str:
    meta = (request.object or {}).get("metadata") or {}
    name: str = request.name or meta.get("name", "")
    return name


def _present(obj: dict[str, Any] | None) -> dict[str, Any]:
    """The object of an operation that always has one."""
    return obj or {}
