"""The admission chain, between a valid request and the store.

Mutating admission runs on the decoded and defaulted object. Then the caller validates the object's
fields. Then validating admission runs. The order is that of a real API server (k8s.io/kubernetes
pkg/kubeapiserver/options/plugins.go; kubernetes-resize.md 1.3).
"""

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
from sandbox.errors import ApiError, forbidden, internal
from sandbox.objects import defaults
from sandbox.objects.pod_resources import qos_class
from sandbox.objects.resources import (
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
)
from sandbox.objects.store import Store
from sandbox.patching.apply import OperationError, apply_operations, copied
from sandbox.version import KubernetesVersion

__all__ = ["Admission", "AdmissionRequest", "Operation", "UserInfo"]

logger = logging.getLogger(__name__)


class Admission:
    """The admission chain of one API server."""

    def __init__(self, store: Store, version: KubernetesVersion, clock: Clock) -> None:
        self._store = store
        self._version = version
        self._clock = clock
        self._checks_nodes = version.minor >= 36
        self._caller = WebhookCaller(minor=version.minor)
        self._hooks: tuple[tuple[int, ...], tuple[Webhook, ...]] = ((), ())  # by versions

    async def mutate(self, request: AdmissionRequest) -> dict[str, Any] | None:
        """Apply defaults and call the mutating webhooks; ``request.object`` is consumed.

        Return the new object, which also becomes ``request.object``. The fields that a resize must
        not change are reset *after* this step.

        Raises:
            ApiError: a webhook refused, or it failed and must not be skipped.
        """
        self._apply_limit_ranges(request)
        if is_exempt(request.resource):
            return request.object
        for hook in self._webhooks():
            if hook.wants(request, self._namespace_labels(request)):
                await self._mutate_by(hook, request)
        return request.object

    def validate(self, request: AdmissionRequest) -> None:
        """Run the validating plugins. Quota is charged here, except in a dry run.

        Raises:
            ApiError: 403 of a plugin.
        """
        self._check_limit_ranges(request)
        if request.is_pod_resize and self._checks_nodes:
            check_node(_present(request.old_object), _present(request.object), self._node)
        self._charge_quotas(request)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()

    async def _mutate_by(self, hook: Webhook, request: AdmissionRequest) -> None:
        """Call one webhook and apply its patch."""
        answer = await self._ask(hook, request)
        if not answer.operations or request.object is None:
            return
        try:
            after = apply_operations(copied(request.object), answer.operations)
            defaults.fill(request.resource, after)
        except (OperationError, ApiError) as error:
            raise internal(str(error)) from error
        request.object = after

    async def _ask(self, hook: Webhook, request: AdmissionRequest) -> Answer:
        try:
            answer = await self._caller.call(hook, request)
        except CallError as error:
            if hook.ignores_failures:
                logger.warning("webhook failed, failing open", extra={"error": str(error)})
                return Answer()
            raise internal(str(error)) from error
        request.warnings += answer.warnings
        return answer

    def _webhooks(self) -> tuple[Webhook, ...]:
        """Return all webhooks in the order of their configurations. They are decoded once."""
        stored = self._store.list(MUTATING_WEBHOOKS)
        versions = tuple(one.version for one in stored)
        if self._hooks[0] != versions:
            found = tuple(
                hook
                for one in stored
                for hook in Webhook.of_configuration(one.object(MUTATING_WEBHOOKS))
            )
            self._hooks = (versions, found)
        return self._hooks[1]

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
        """Refuse a pod that exceeds a quota; otherwise charge it before it is stored."""
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


def _name(request: AdmissionRequest) -> str:
    meta = (request.object or {}).get("metadata") or {}
    name: str = request.name or meta.get("name", "")
    return name


def _present(obj: dict[str, Any] | None) -> dict[str, Any]:
    """Return the object of an operation that always has one."""
    return obj or {}
