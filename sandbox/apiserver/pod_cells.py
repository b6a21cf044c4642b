"""What stands in the cells of a table of pods.

Source: ``printPod``, k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from sandbox.apiserver.table_cells import age_since
from sandbox.objects.json_paths import find

Json = Mapping[str, Any]

_FINISHED = ("Succeeded", "Failed")
_UNREACHABLE = "NodeLost"


def ready(pod: Json, _now: datetime) -> str:
    """Ready containers of all, sidecars among them: ``1/2``."""
    sidecars = _sidecars(pod)
    statuses = [
        *(find(pod, ".status.containerStatuses") or ()),
        *(
            one
            for one in find(pod, ".status.initContainerStatuses") or ()
            if one.get("name") in sidecars and one.get("started")
        ),
    ]
    count = sum(1 for one in statuses if one.get("ready"))
    return f"{count}/{len(find(pod, '.spec.containers') or ()) + len(sidecars)}"


def status(pod: Json, _now: datetime) -> str:
    """The phase, or what is more telling: a container's reason, Terminating."""
    state = pod.get("status") or {}
    initializing = _initializing(pod)
    shown = initializing[1] if initializing else _running(state)
    if "deletionTimestamp" not in pod["metadata"]:
        return shown
    if state.get("reason") == _UNREACHABLE:
        return "Unknown"
    return shown if state.get("phase") in _FINISHED else "Terminating"


def _running(state: Json) -> str:
    """What the containers say, the first one last."""
    shown = str(state.get("reason") or state.get("phase") or "")
    if _condition(state, "PodScheduled").get("reason") == "SchedulingGated":
        shown = "SchedulingGated"
    running, trouble = False, ""
    for one in reversed(state.get("containerStatuses") or ()):
        container = one.get("state") or {}
        ended = container.get("terminated")
        shown = _reason(container, shown)
        if ended is not None and ended.get("exitCode"):
            trouble = shown
        running = running or (bool(one.get("ready")) and "running" in container)
    if shown != "Completed":
        return shown
    if running and _condition(state, "Ready").get("status") == "True":
        return "Running"
    return trouble or ("NotReady" if running else shown)


def _condition(state: Json, name: str) -> Json:
    found = (one for one in state.get("conditions") or () if one.get("type") == name)
    return next(found, {})


def _reason(container: Json, otherwise: str) -> str:
    waiting, ended = container.get("waiting") or {}, container.get("terminated")
    if waiting.get("reason"):
        return str(waiting["reason"])
    if ended is None:
        return otherwise
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _initializing(pod: Json) -> tuple[int, str] | None:
    """Which init container is at work, and what keeps it; None after the last one."""
    if _condition(pod.get("status") or {}, "Initialized").get("status") == "True":
        return None
    sidecars = _sidecars(pod)
    for index, one in enumerate(find(pod, ".status.initContainerStatuses") or ()):
        state = one.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if one.get("name") in sidecars and one.get("started"):
            continue
        waiting = (state.get("waiting") or {}).get("reason")
        if ended is not None or waiting not in (None, "", "PodInitializing"):
            return index, f"Init:{_reason(state, '')}"
        return index, f"Init:{index}/{len(find(pod, '.spec.initContainers') or ())}"
    return None


def restarts(pod: Json, now: datetime) -> str:
    """Restarts of all containers, and how long ago the last one was."""
    count, last = 0, ""
    for one in _counted(pod):
        count += one.get("restartCount", 0)
        finished = find(one, ".lastState.terminated.finishedAt")
        last = max(last, str(finished or ""))
    return f"{count} ({age_since(last, now)} ago)" if count and last else str(count)


def _counted(pod: Json) -> Iterator[Json]:
    """Those until the init container at work; later the others, and the sidecars."""
    first = find(pod, ".status.initContainerStatuses") or ()
    initializing = _initializing(pod)
    if initializing:
        yield from first[: initializing[0] + 1]
        return
    yield from find(pod, ".status.containerStatuses") or ()
    sidecars = _sidecars(pod)
    yield from (one for one in first if one.get("name") in sidecars)


def _sidecars(pod: Json) -> frozenset[str]:
    return frozenset(
        one["name"]
        for one in find(pod, ".spec.initContainers") or ()
        if one.get("restartPolicy") == "Always"
    )


def address(pod: Json, _now: datetime) -> str:
    """The pod's first address."""
    state = pod.get("status") or {}
    listed = state.get("podIPs") or [{"ip": state.get("podIP")}]
    return str(listed[0].get("ip") or "<none>")


def gates(pod: Json, _now: datetime) -> str:
    """Open readiness gates of all: ``0/1``."""
    wanted = find(pod, ".spec.readinessGates") or ()
    state = pod.get("status") or {}
    is_open = [_condition(state, one.get("conditionType", "")).get("status") for one in wanted]
    return f"{is_open.count('True')}/{len(wanted)}" if wanted else "<none>"
