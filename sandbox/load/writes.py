"""Writes: answered at once or after a delay, audited, and applied if the settings say so."""

import asyncio
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox.errors import ApiError, bad_request, unsupported_media_type
from sandbox.load.amounts import Operation, UnknownChangeError
from sandbox.load.audit import Audit
from sandbox.load.layout import CONTAINERS
from sandbox.load.population import PodState
from sandbox.load.requests import JSON_PATCH, Asked
from sandbox.load.world import World
from sandbox.objects.resources import LEASES
from sandbox.objects.store import Store

Answer = tuple[int, bytes]

_DONE = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'
_VERSION = "/metadata/resourceVersion"
_EVICTED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Named(msgspec.Struct):
    metadata: dict[str, Any]


_operations_decoder = msgspec.json.Decoder(tuple[Operation, ...])
_named_decoder = msgspec.json.Decoder(_Named)


class Writes:
    """Answers the components' writes; ``delay`` is the time before a response, in seconds."""

    def __init__(self, world: World, audit: Audit, clock: Clock, *, delay: float) -> None:
        self.checkpoints: set[int] = set()  # the numbers of existing checkpoints
        self._world = world
        self._leases = Store()
        self._audit = audit
        self._clock = clock
        self._delay = delay

    async def answer(self, asked: Asked, body: bytes) -> Answer:
        """Return the code and the body of the response.

        Raises:
            ApiError: the object doesn't exist, or the write isn't supported.
        """
        if asked.resource == "leases":
            return self._write_lease(asked, body)
        group = None
        if asked.resource == "pods":
            group = self._pod(asked).slot // self._world.population.layout.group_size
        with self._audit.writing(group):
            if self._delay:
                await asyncio.sleep(self._delay)
            try:
                return self._write(asked, body)
            except msgspec.DecodeError as error:
                raise bad_request(f"the body can't be read: {error}") from error
            except UnknownChangeError as error:
                raise ApiError(422, "Invalid", f"the load mode can't do that: {error}") from error

    def _write(self, asked: Asked, body: bytes) -> Answer:
        match asked.verb, asked.audited:
            case "create", "pods/eviction":
                self._world.evict(self._pod(asked), self._clock.now())
                return 201, _EVICTED
            case "patch", "pods/resize":
                operations = _operations_decoder.decode(_json_patch(asked, body))
                return 200, self._world.resize(self._pod(asked), operations, self._clock.now())
            case "patch", "pods":
                operations = _operations_decoder.decode(_json_patch(asked, body))
                return 200, self._world.annotate(self._pod(asked), operations)
            case "patch", "verticalpodautoscalers/status":
                return 200, self._publish(asked, body)
            case _, "verticalpodautoscalercheckpoints":
                return self._checkpoint(asked, body)
            case "create", "events":
                return 201, body  # the client has set the name
            case "patch", "events":
                metadata = {"name": asked.name, "namespace": asked.namespace}
                return 200, msgspec.json.encode({"metadata": metadata})
        raise _unsupported(asked)

    def _pod(self, asked: Asked) -> PodState:
        found = self._world.population.named_pod(asked.namespace, asked.name)
        if found is None:
            raise asked.missing
        return found

    def _publish(self, asked: Asked, body: bytes) -> bytes:
        layout = self._world.population.layout
        vpa = layout.vpa(asked.name)
        if vpa is None or layout.namespace(vpa) != asked.namespace:
            raise asked.missing
        operations = [
            each
            for each in _operations_decoder.decode(_json_patch(asked, body))
            if each.path != _VERSION  # there is no other writer
        ]
        for operation in operations:
            if operation.path != "/status" or operation.op not in ("add", "replace"):
                raise UnknownChangeError(f"{operation.op} {operation.path}")
        status = operations[-1].value if operations else {}
        return self._world.publish(vpa, msgspec.json.encode(status))

    def _checkpoint(self, asked: Asked, body: bytes) -> Answer:
        """Create, delete or patch a checkpoint. Its content never changes."""
        name = asked.name
        if asked.verb == "create":
            name = str(_named_decoder.decode(body).metadata.get("name", ""))
        number = self.checkpoint_number(asked.namespace, name)
        if asked.verb == "create" and number is not None:
            if number in self.checkpoints:
                raise ApiError(409, "AlreadyExists", f'{asked.resource} "{name}" already exists')
            self.checkpoints.add(number)
            return 201, body
        if number is None or number not in self.checkpoints:
            raise asked.missing
        if asked.verb == "delete":
            self.checkpoints.discard(number)
            return 200, _DONE
        if asked.verb == "patch":
            return 200, self._world.population.checkpoint(number)
        raise _unsupported(asked)

    def checkpoint_number(self, namespace: str, name: str) -> int | None:
        """Return the number of a container's checkpoint; None for an unknown name."""
        layout = self._world.population.layout
        app, _, container = name.rpartition("-")
        vpa = layout.vpa(app)
        if vpa is None or container not in CONTAINERS or layout.namespace(vpa) != namespace:
            return None
        return vpa * len(CONTAINERS) + CONTAINERS.index(container)

    def lease(self, asked: Asked) -> bytes:
        """Return a Lease.

        Raises:
            ApiError: 404.
        """
        lease = self._leases.existing(LEASES, asked.namespace, asked.name).object(LEASES)
        return msgspec.json.encode(lease)

    def _write_lease(self, asked: Asked, body: bytes) -> Answer:
        """Create or replace a Lease. A replacement of another version conflicts."""
        try:
            lease = msgspec.json.decode(body, type=dict[str, Any])
            meta = lease["metadata"]
        except (msgspec.DecodeError, KeyError) as error:
            raise bad_request(f"the body is no Lease: {error}") from error
        meta["namespace"] = asked.namespace
        if asked.verb == "create":
            return 201, msgspec.json.encode(self._leases.create(LEASES, lease).object(LEASES))
        if asked.verb == "update":
            expected = int(meta.get("resourceVersion") or 0) or None
            stored = self._leases.update(LEASES, lease, expected=expected)
            return 200, msgspec.json.encode(stored.object(LEASES))
        raise _unsupported(asked)


def _unsupported(asked: Asked) -> ApiError:
    text = f"the load mode does not {asked.verb} {asked.audited}"
    return ApiError(405, "MethodNotAllowed", text)


def _json_patch(asked: Asked, body: bytes) -> bytes:
    content_type = asked.headers.get(b"content-type", b"")
    if content_type.partition(b";")[0] != JSON_PATCH:
        raise unsupported_media_type([JSON_PATCH.decode()])
    return body
