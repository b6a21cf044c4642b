"""Writes: answered at once or after a while, audited, and carried out where that is asked for."""

import asyncio
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox.load.amounts import Operation, UnknownChangeError
from sandbox.load.audit import Audit
from sandbox.load.layout import CONTAINERS
from sandbox.load.leases import Leases
from sandbox.load.population import PodState
from sandbox.load.reads import not_found
from sandbox.load.requests import JSON_PATCH, Asked, RefusedError
from sandbox.load.world import World

Answer = tuple[int, bytes]

_DONE = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'
_VERSION = "/metadata/resourceVersion"
_EVICTED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Operation(msgspec.Struct):
    op: str
    path: str
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Named(msgspec.Struct):
    metadata: dict[str, Any]


_operations_decoder = msgspec.json.Decoder(tuple[Operation, ...])
_raw_operations_decoder = msgspec.json.Decoder(tuple[_Operation, ...])
_named_decoder = msgspec.json.Decoder(_Named)


class Writes:
    """Answers what our components write; ``delay`` is what an answer takes, in seconds."""

    def __init__(
        self, world: World, leases: Leases, audit: Audit, clock: Clock, *, delay: float
    ) -> None:
        self.checkpoints: set[int] = set()  # the numbers of those that are there
        self._world = world
        self._leases = leases
        self._audit = audit
        self._clock = clock
        self._delay = delay

    async def answer(self, asked: Asked, body: bytes) -> Answer:
        """The code and the body of the answer.

        Raises:
            RefusedError: there is no such object, or nothing of the kind can be written here.
        """
        if asked.resource == "leases":
            return self._lease(asked, body)
        group = None
        if asked.resource == "pods":
            group = self._pod(asked).slot // self._world.population.layout.group_size
        with self._audit.writing(group):
            if self._delay:
                await asyncio.sleep(self._delay)
            try:
                return self._write(asked, body)
            except msgspec.DecodeError as error:
                raise RefusedError(400, f"the body can't be read: {error}") from error
            except UnknownChangeError as error:
                raise RefusedError(422, f"the load mode can't do that: {error}") from error

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
                return 201, body  # as it came: its name is the client's own
            case "patch", "events":
                metadata = {"name": asked.name, "namespace": asked.namespace}
                return 200, msgspec.json.encode({"metadata": metadata})
        raise RefusedError(405, f"the load mode does not {asked.verb} {asked.audited}")

    def _pod(self, asked: Asked) -> PodState:
        found = self._world.population.named_pod(asked.namespace, asked.name)
        if found is None:
            raise not_found(asked)
        return found

    def _publish(self, asked: Asked, body: bytes) -> bytes:
        layout = self._world.population.layout
        vpa = layout.vpa(asked.name)
        if vpa is None or layout.namespace(vpa) != asked.namespace:
            raise not_found(asked)
        operations = [
            each
            for each in _raw_operations_decoder.decode(_json_patch(asked, body))
            if each.path != _VERSION  # there is no other writer
        ]
        for operation in operations:
            if operation.path != "/status" or operation.op not in ("add", "replace"):
                raise UnknownChangeError(f"{operation.op} {operation.path}")
        return self._world.publish(vpa, bytes(operations[-1].value) if operations else b"{}")

    def _checkpoint(self, asked: Asked, body: bytes) -> Answer:
        """Whether there is one is true; its content stays the prepared one."""
        name = asked.name
        if asked.verb == "create":
            name = str(_named_decoder.decode(body).metadata.get("name", ""))
        number = self.checkpoint_number(asked.namespace, name)
        if asked.verb == "create" and number is not None:
            if number in self.checkpoints:
                raise RefusedError(409, f'{asked.resource} "{name}" already exists')
            self.checkpoints.add(number)
            return 201, body
        if number is None or number not in self.checkpoints:
            raise not_found(asked)
        if asked.verb == "delete":
            self.checkpoints.discard(number)
            return 200, _DONE
        if asked.verb == "patch":
            return 200, self._world.population.checkpoint(number)
        raise RefusedError(405, f"the load mode does not {asked.verb} {asked.resource}")

    def checkpoint_number(self, namespace: str, name: str) -> int | None:
        """The number of a checkpoint of one of our VPAs' containers."""
        layout = self._world.population.layout
        app, _, container = name.rpartition("-")
        vpa = layout.vpa(app)
        if vpa is None or container not in CONTAINERS or layout.namespace(vpa) != namespace:
            return None
        return vpa * len(CONTAINERS) + CONTAINERS.index(container)

    def _lease(self, asked: Asked, body: bytes) -> Answer:
        if asked.verb == "create":
            return 201, self._leases.create(asked, body)
        if asked.verb == "update":
            return 200, self._leases.replace(asked, body)
        raise RefusedError(405, f"the load mode does not {asked.verb} leases")


def _json_patch(asked: Asked, body: bytes) -> bytes:
    content_type = asked.headers.get(b"content-type", b"")
    if content_type.partition(b";")[0] != JSON_PATCH:
        raise RefusedError(415, "the load mode knows JSON patches only")
    return body
