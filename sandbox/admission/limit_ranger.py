"""The LimitRanger plugin: defaults and bounds of a namespace's LimitRanges.

LimitRanges are stored with their own defaults filled in (``default`` from ``max`` and so on).

Source: k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go;
kubernetes-resize.md 1.2 and section 2.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from common.quantity import MAX_INT64, Quantity
from common.resources import in_order, parse_quantities
from sandbox.objects.pod_resources import containers_of, pod_limits, pod_requests, resources_of

ANNOTATION: Final = "kubernetes.io/limit-ranger"

Amounts = Mapping[str, Quantity]
Item = Mapping[str, Any]  # one entry of a LimitRange's spec.limits

_MAX_MILLI: Final = MAX_INT64 // 1000


def apply_defaults(pod: dict[str, Any], limit_ranges: Iterable[Mapping[str, Any]]) -> None:
    """Fill in missing requests and limits of every container, in place.

    An annotation lists what was set. With several LimitRanges, the last annotation stays.
    """
    for limit_range in limit_ranges:
        requests: dict[str, Any] = {}
        limits: dict[str, Any] = {}
        for item in _items(limit_range, "Container"):
            requests.update(item.get("defaultRequest") or {})
            limits.update(item.get("default") or {})
        filled: list[str] = []
        for kind, title in (("containers", "container"), ("initContainers", "init container")):
            for container in pod["spec"].get(kind) or ():
                filled += _fill(container, requests, limits, title)
        if filled:
            annotations = pod["metadata"].get("annotations") or {}
            text = f"LimitRanger plugin set: {'; '.join(filled)}"
            pod["metadata"]["annotations"] = {**annotations, ANNOTATION: text}


def broken_bounds(pod: Mapping[str, Any], limit_range: Mapping[str, Any]) -> str:
    """Return all bounds that the pod violates, joined as one text; empty if none."""
    problems: list[str] = []
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        kind = item.get("type", "")
        if kind == "Container":
            for container in containers_of(pod):
                requests, limits = (
                    resources_of(container, "requests"),
                    resources_of(container, "limits"),
                )
                problems += _problems(item, requests, limits)
        elif kind == "Pod":
            bare = _without_overhead(pod)
            problems += _problems(item, pod_requests(bare), pod_limits(bare))
    problems = list(dict.fromkeys(problems))
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""


def _without_overhead(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod without overhead, because the plugin sums up containers only."""
    spec = {name: value for name, value in pod["spec"].items() if name != "overhead"}
    return {**pod, "spec": spec}


def _items(limit_range: Mapping[str, Any], kind: str) -> Iterator[Item]:
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == kind:
            yield item


def _fill(
    container: dict[str, Any], requests: Mapping[str, Any], limits: Mapping[str, Any], title: str
) -> Iterator[str]:
    """Set missing values. Yield a sentence for requests and one for limits."""
    resources = dict(container.get("resources") or {})
    for part, defaults, word in (
        ("requests", requests, "request"),
        ("limits", limits, "limit"),
    ):
        present = resources.get(part) or {}
        missing = {name: value for name, value in defaults.items() if name not in present}
        if missing:
            resources[part] = {**present, **missing}
            container["resources"] = resources
            yield f"{', '.join(sorted(missing))} {word} for {title} {container['name']}"


def _problems(item: Item, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = item["type"]
    for name, least in _bounds(item, "min"):
        text = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif requests[name] < least:
            yield f"{text}, but request is {requests[name]}"
        elif name in limits and limits[name] < least:
            yield f"{text}, but limit is {limits[name]}"
    for name, most in _bounds(item, "max"):
        text = f"maximum {name} usage per {kind} is {most}"
        if name not in limits:
            yield f"{text}.  No limit is specified"
        elif limits[name] > most:
            yield f"{text}, but limit is {limits[name]}"
        elif name in requests and requests[name] > most:
            yield f"{text}, but request is {requests[name]}"
    for name, ratio in _bounds(item, "maxLimitRequestRatio"):
        yield from _ratio_problem(kind, name, ratio, requests.get(name), limits.get(name))


def _bounds(item: Item, part: str) -> list[tuple[str, Quantity]]:
    bounds = parse_quantities(item.get(part))
    return [(name, bounds[name]) for name in in_order(bounds)]


def _ratio_problem(
    kind: str, name: str, most: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {kind} is {most}"
    if request is None or request.is_zero:
        yield f"{text}, but no request is specified or request is 0"
        return
    if limit is None or limit.is_zero:
        yield f"{text}, but no limit is specified or limit is 0"
        return
    in_milli = all(one.value <= _MAX_MILLI for one in (request, limit, most))
    ratio = limit.milli / request.milli if in_milli else limit.value / request.value
    if ratio * 1000 > most.milli:
        yield f"{text}, but provided ratio is {ratio:f}"
