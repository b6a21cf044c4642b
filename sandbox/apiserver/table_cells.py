"""What stands in the cells of the built-in kinds' tables."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sandbox.objects.json_paths import find
from sandbox.times import human_age

Json = Mapping[str, Any]
Cell = Callable[[Json, datetime], Any]

_SHOWN_ENDPOINTS = 3
_UNREACHABLE = "NodeLost"


def age_since(text: Any, now: datetime) -> str:
    """``5m`` for an RFC 3339 time."""
    try:
        return human_age(now - datetime.fromisoformat(str(text)))
    except ValueError:
        return "<unknown>"


def age(obj: Json, now: datetime) -> str:
    """The age since the creation."""
    return age_since(obj["metadata"].get("creationTimestamp"), now)


def age_at(path: str) -> Cell:
    """The age since the time at a path."""

    def cell(obj: Json, now: datetime) -> str:
        value = find(obj, path)
        return "<none>" if value is None else age_since(value, now)

    return cell


def plain(value: Any) -> str:
    """A value that is no text in a column of texts, as Go's ``%v`` prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(plain(item) for item in value)}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{plain(value[key])}' for key in sorted(value))}]"
    return str(value)


def length(path: str) -> Cell:
    """How many entries the list or map at a path has."""
    return lambda obj, _now: len(find(obj, path) or ())


def data_count(obj: Json, _now: datetime) -> int:
    """How many keys a ConfigMap or a Secret has."""
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def pod_ready(pod: Json, _now: datetime) -> str:
    """Ready containers of all: ``1/2``."""
    statuses = find(pod, ".status.containerStatuses") or ()
    ready = sum(1 for one in statuses if one.get("ready"))
    return f"{ready}/{len(find(pod, '.spec.containers') or ())}"


def pod_status(pod: Json, _now: datetime) -> str:
    """The phase, or what is more telling: a container's reason, Terminating.

    Source: ``printPod``.
    """
    status = pod.get("status") or {}
    shown: str = status.get("reason") or status.get("phase") or "Unknown"
    initializing = _init_status(pod)
    if initializing:
        shown = initializing
    else:
        running = False
        for one in reversed(status.get("containerStatuses") or ()):
            state = one.get("state") or {}
            shown = _reason(state, shown)
            running = running or (bool(one.get("ready")) and "running" in state)
        if shown == "Completed" and running:
            shown = "Running"
    if "deletionTimestamp" in pod["metadata"]:
        finished = status.get("phase") in ("Succeeded", "Failed")
        return shown if finished else "Terminating"
    return shown


def _reason(state: Json, otherwise: str) -> str:
    waiting, ended = state.get("waiting") or {}, state.get("terminated")
    if waiting.get("reason"):
        return str(waiting["reason"])
    if ended is None:
        return otherwise
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _init_status(pod: Json) -> str:
    containers = {one["name"]: one for one in find(pod, ".spec.initContainers") or ()}
    statuses = find(pod, ".status.initContainerStatuses") or ()
    for index, one in enumerate(statuses):
        state = one.get("state") or {}
        sidecar = containers.get(one.get("name"), {}).get("restartPolicy") == "Always"
        ended = state.get("terminated")
        if (ended is not None and ended.get("exitCode") == 0) or (sidecar and one.get("started")):
            continue
        if ended is not None or (state.get("waiting") or {}).get("reason") not in (
            None,
            "PodInitializing",
        ):
            return f"Init:{_reason(state, '')}"
        return f"Init:{index}/{len(containers)}"
    return ""


def pod_restarts(pod: Json, now: datetime) -> str:
    """Restarts of all containers, and how long ago the last one was."""
    restarts, last = 0, ""
    for one in _all_statuses(pod):
        restarts += one.get("restartCount", 0)
        finished = find(one, ".lastState.terminated.finishedAt")
        last = max(last, str(finished or ""))
    return f"{restarts} ({age_since(last, now)} ago)" if restarts and last else str(restarts)


def _all_statuses(pod: Json) -> Iterator[Json]:
    yield from find(pod, ".status.containerStatuses") or ()
    sidecars = {
        one["name"]
        for one in find(pod, ".spec.initContainers") or ()
        if one.get("restartPolicy") == "Always"
    }
    for one in find(pod, ".status.initContainerStatuses") or ():
        if one.get("name") in sidecars:
            yield one


def node_status(node: Json, _now: datetime) -> str:
    """The Ready condition, and whether pods may be placed."""
    ready = find(node, ".status.conditions[?(@.type=='Ready')].status")
    shown = {"True": "Ready", "False": "NotReady"}.get(str(ready), "Unknown")
    if find(node, ".spec.unschedulable"):
        shown += ",SchedulingDisabled"
    return shown


def node_roles(node: Json, _now: datetime) -> str:
    """Roles, from the labels."""
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(roles) or "<none>"


def node_selector(obj: Json, _now: datetime) -> str:
    """Where a DaemonSet's pods may run."""
    return _labels(find(obj, ".spec.template.spec.nodeSelector"))


def _labels(labels: Json | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector(obj: Json, _now: datetime) -> str:
    """A selector in its text form."""
    raw = find(obj, ".spec.selector") or {}
    if "matchLabels" not in raw and "matchExpressions" not in raw:
        return _labels(raw)
    texts = [f"{key}={value}" for key, value in sorted((raw.get("matchLabels") or {}).items())]
    texts += [_expression(one) for one in raw.get("matchExpressions") or ()]
    return ",".join(texts) or "<none>"


def _expression(one: Json) -> str:
    key, values = str(one["key"]), ",".join(one.get("values") or ())
    forms = {"Exists": key, "DoesNotExist": f"!{key}", "NotIn": f"{key} notin ({values})"}
    return forms.get(one["operator"], f"{key} in ({values})")


def containers(obj: Json, _now: datetime) -> str:
    """Names of the template's containers."""
    return ",".join(one["name"] for one in find(obj, ".spec.template.spec.containers") or ())


def images(obj: Json, _now: datetime) -> str:
    """Images of the template's containers."""
    found = find(obj, ".spec.template.spec.containers") or ()
    return ",".join(one.get("image", "") for one in found)


def ready_of_desired(obj: Json, _now: datetime) -> str:
    """Ready replicas of the desired ones: ``1/2``."""
    ready = find(obj, ".status.readyReplicas") or 0
    return f"{ready}/{find(obj, '.spec.replicas') or 0}"


def service_ports(service: Json, _now: datetime) -> str:
    """Ports of a Service: ``80/TCP``."""
    texts = []
    for port in find(service, ".spec.ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or "<none>"


def endpoints(obj: Json, _now: datetime) -> str:
    """The first addresses, and how many more there are."""
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in obj.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    more = f" + {len(found) - _SHOWN_ENDPOINTS} more..." if len(found) > _SHOWN_ENDPOINTS else ""
    return ",".join(found[:_SHOWN_ENDPOINTS]) + more or "<none>"


def event_first_seen(event: Json, now: datetime) -> str:
    """When the event happened first."""
    when = event.get("firstTimestamp") or event.get("eventTime")
    return age_since(when, now) if when else "<unknown>"


def event_last_seen(event: Json, now: datetime) -> str:
    """The last time and, of an event that repeats, how often and since when.

    Source: ``printEvent``.
    """
    series = event.get("series")
    if series:
        since = event_first_seen(event, now)
        seen = age_since(series.get("lastObservedTime"), now)
        return f"{seen} (x{series.get('count', 0)} over {since})"
    last = event.get("lastTimestamp")
    if not last:
        return event_first_seen(event, now)
    count = event.get("count") or 0
    shown = age_since(last, now)
    return f"{shown} (x{count} over {event_first_seen(event, now)})" if count > 1 else shown


def event_object(event: Json, _now: datetime) -> str:
    """What the event is about: ``pod/web-1``."""
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_source(event: Json, _now: datetime) -> str:
    """Who reported the event."""
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def event_message(event: Json, _now: datetime) -> str:
    """The sentence."""
    return str(event.get("message") or "").strip()


def event_count(event: Json, _now: datetime) -> int:
    """How often it happened."""
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or 1)


def job_completions(job: Json, _now: datetime) -> str:
    """Finished pods of the wanted ones."""
    done = find(job, ".status.succeeded") or 0
    return f"{done}/{find(job, '.spec.completions') or 1}"


def job_status(job: Json, _now: datetime) -> str:
    """How the Job stands."""
    for type_, shown in (("Complete", "Complete"), ("Failed", "Failed")):
        if find(job, f".status.conditions[?(@.type=='{type_}')].status") == "True":
            return shown
    return "Suspended" if find(job, ".spec.suspend") else "Running"


def job_duration(job: Json, now: datetime) -> str:
    """How long the Job has run, or ran."""
    start, end = find(job, ".status.startTime"), find(job, ".status.completionTime")
    if start is None:
        return ""
    return age_since(start, datetime.fromisoformat(str(end)) if end else now)


def quota(part: str) -> Cell:
    """``cpu: 1/2, memory: 1Gi/4Gi`` of requests or of limits."""

    def cell(obj: Json, _now: datetime) -> str:
        status = obj.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits") is (part == "limits")]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def api_service(obj: Json, _now: datetime) -> str:
    """Who answers the API."""
    service = find(obj, ".spec.service")
    return f"{service['namespace']}/{service['name']}" if service else "Local"


def api_service_available(obj: Json, _now: datetime) -> str:
    """Whether it answers."""
    return str(find(obj, ".status.conditions[?(@.type=='Available')].status") or "Unknown")
