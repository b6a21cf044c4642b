"""The admission plugin Priority: a new pod gets the number that its class stands for.

Source: k8s.io/kubernetes plugin/pkg/admission/priority/admission.go.
"""

from dataclasses import dataclass
from typing import Any, Final

from sandbox.admission.request import AdmissionRequest
from sandbox.errors import forbidden
from sandbox.objects.resources import PODS, PRIORITY_CLASSES
from sandbox.objects.store import Store

_LOWER: Final = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class _Class:
    """What a PriorityClass gives to its pods."""

    name: str
    value: int
    policy: str


class Priorities:
    """Gives every new pod its priority; a pod whose class isn't there is refused."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions: tuple[int, ...] | None = None
        self._classes: dict[str, _Class] = {}
        self._default = _Class("", 0, _LOWER)

    def admit(self, request: AdmissionRequest) -> None:
        """Complete ``request.object`` in place, if it is a new pod.

        Raises:
            ApiError: 403, its class doesn't exist, or it names another number or policy than its
                class does.
        """
        if not request.is_pod_create or request.object is None:
            return
        self._read()
        spec = request.object["spec"]
        name = spec.get("priorityClassName") or ""
        found = self._classes.get(name) if name else self._default
        if found is None:
            raise _refused(request, f"no PriorityClass with name {name} was found")
        if spec.get("priority", found.value) != found.value:
            raise _refused(
                request,
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {found.value} from the given "
                "PriorityClass name",
            )
        if found.policy and spec.get("preemptionPolicy", found.policy) != found.policy:
            raise _refused(
                request,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
                f"provided in pod spec; priority admission controller computed {found.policy} "
                "from the given PriorityClass name",
            )
        if found.name:
            spec["priorityClassName"] = found.name
        spec["priority"] = found.value
        if found.policy:
            spec["preemptionPolicy"] = found.policy

    def _read(self) -> None:
        """Decode the classes again if one of them has changed."""
        stored = self._store.list(PRIORITY_CLASSES)
        versions = tuple(one.version for one in stored)
        if versions == self._versions:
            return
        self._versions = versions
        objects = [one.object(PRIORITY_CLASSES) for one in stored]
        self._classes = {obj["metadata"]["name"]: _class(obj) for obj in objects}
        defaults = [_class(obj) for obj in objects if obj.get("globalDefault")]
        self._default = min(defaults, key=lambda one: one.value, default=_Class("", 0, _LOWER))


def _class(obj: dict[str, Any]) -> _Class:
    name: str = obj["metadata"]["name"]
    return _Class(name, obj.get("value", 0), obj.get("preemptionPolicy") or _LOWER)


def _refused(request: AdmissionRequest, text: str) -> Exception:
    meta = (request.object or {})["metadata"]
    return forbidden(PODS, request.name or meta.get("name", ""), text)
