"""The requests of a pod's containers added up, as the API server counts them.

Source: ``AggregateContainerRequests``, k8s.io/component-helpers/resource/helpers.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from common.api.core import Container, Pod, is_sidecar
from common.quantity import ZERO, Quantity
from common.recommendation.scaled_containers import scaled_specs
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

_STORED = -3  # the power of ten to which the API server rounds up every quantity

ByContainer = Mapping[str, ResourceQuantities]


@dataclass(frozen=True, slots=True)
class RequestSums:
    """Requests of a pod's containers, as the API server counts them."""

    running: dict[str, Quantity]  # regular containers and native sidecars
    aggregate: dict[str, Quantity]  # or what an init container needs, if that is more
    sidecars: dict[str, Quantity]  # native sidecars that aren't scaled
    starting: dict[str, Quantity]  # what the init containers need

    @classmethod
    def of(cls, pod: Pod, changed: ByContainer) -> "RequestSums":
        """Add up, with the requests of some containers changed."""
        names = {container.name for container in scaled_specs(pod)}
        running: dict[str, Quantity] = {}
        for container in pod.spec.containers:
            _add(running, {**own_requests(container), **changed.get(container.name, {})})
        before: dict[str, Quantity] = {}  # the sidecars that an init container runs beside
        starting: dict[str, Quantity] = {}
        sidecars: dict[str, Quantity] = {}
        for container in pod.spec.init_containers or ():
            own = {**own_requests(container), **changed.get(container.name, {})}
            step = dict(before)
            _add(step, own)
            if is_sidecar(container):
                before = step
                _add(running, own)
                if container.name not in names:
                    _add(sidecars, own)
            for name, amount in step.items():
                starting[name] = max(amount, starting.get(name, amount))
        aggregate = dict(running)
        for name, amount in starting.items():
            aggregate[name] = max(amount, aggregate.get(name, amount))
        return cls(running, aggregate, sidecars, starting)


def own_requests(container: Container) -> dict[str, Quantity]:
    """Requests of cpu and memory; a limit without a request is one."""
    if container.resources is None:
        return {}
    asked = parse_quantities(container.resources.limits)
    asked.update(parse_quantities(container.resources.requests))
    return {name: asked[name] for name in RESOURCES if name in asked}


def as_stored(quantity: Quantity) -> Quantity:
    """As the API server stores it: nothing is finer than a thousandth."""
    return quantity.round_up(_STORED)


def _add(total: dict[str, Quantity], more: ResourceQuantities) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, ZERO) + as_stored(amount)
