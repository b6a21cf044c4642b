"""What stands in the cells of the built-in kinds' tables."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from sandbox.objects.json_paths import find
from sandbox.times import human_age

Json = Mapping[str, Any]
Cell = Callable[[Json, datetime], Any]

_SHOWN = 3  # addresses or ports of one object
_ACCESS = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
# What a Job's status says of it, in the order of importance.
_JOB_ENDS = ("Complete", "Failed")
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


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


def node_status(node: Json, _now: datetime) -> str:
    """The Ready condition, and whether pods may be placed."""
    ready = find(node, ".status.conditions[?(@.type=='Ready')].status")
    shown = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if find(node, ".spec.unschedulable"):
        shown += ",SchedulingDisabled"
    return shown


def node_kernel(node: Json, _now: datetime) -> str:
    """The kernel's version, and for which machines it is."""
    info = find(node, ".status.nodeInfo") or {}
    version = info.get("kernelVersion") or "<unknown>"
    return f"{version} ({info['architecture']})" if info.get("architecture") else str(version)


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


def selector(path: str) -> Cell:
    """The selector at a path in its text form."""

    def cell(obj: Json, _now: datetime) -> str:
        raw = find(obj, path) or {}
        if "matchLabels" not in raw and "matchExpressions" not in raw:
            return _labels(raw)
        texts = [f"{key}={value}" for key, value in sorted((raw.get("matchLabels") or {}).items())]
        texts += [_expression(one) for one in raw.get("matchExpressions") or ()]
        return ",".join(texts) or "<none>"

    return cell


def _expression(one: Json) -> str:
    key, values = str(one["key"]), ",".join(one.get("values") or ())
    forms = {"Exists": key, "DoesNotExist": f"!{key}", "NotIn": f"{key} notin ({values})"}
    return forms.get(one["operator"], f"{key} in ({values})")


def containers(template: str) -> Cell:
    """Names of the containers of the template at a path."""
    return lambda obj, _now: ",".join(
        one["name"] for one in find(obj, f"{template}.spec.containers") or ()
    )


def images(template: str) -> Cell:
    """Images of the containers of the template at a path."""
    return lambda obj, _now: ",".join(
        one.get("image", "") for one in find(obj, f"{template}.spec.containers") or ()
    )


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


def service_outside(service: Json, _now: datetime) -> str:
    """Where a Service is reached from outside the cluster."""
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or "")
    found = list(spec.get("externalIPs") or ())
    if spec.get("type") != "LoadBalancer":
        return ",".join(found) or "<none>"
    balancers = find(service, ".status.loadBalancer.ingress") or ()
    addresses = [one.get("ip") or one.get("hostname") or "" for one in balancers]
    return ",".join([*filter(None, addresses), *found]) or "<pending>"


def endpoints(obj: Json, _now: datetime) -> str:
    """The first addresses, and how many more there are."""
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [address["ip"] for address in subset.get("addresses") or ()]
        ports = [port["port"] for port in subset.get("ports") or ()]
        pairs = [f"{address}:{port}" for port in ports for address in addresses]
        found += pairs if ports else addresses
    return _first(found, "<none>")


def slice_ports(obj: Json, _now: datetime) -> str:
    """The first ports of an EndpointSlice, by number or else by name."""
    ports = obj.get("ports") or ()
    return _first([str(one.get("port") or one.get("name") or "*") for one in ports], "<unset>")


def slice_addresses(obj: Json, _now: datetime) -> str:
    """The first addresses of an EndpointSlice."""
    slices = obj.get("endpoints") or ()
    return _first([address for one in slices for address in one.get("addresses") or ()], "<unset>")


def _first(texts: Iterable[str], nothing: str) -> str:
    found = list(texts)
    more = f" + {len(found) - _SHOWN} more..." if len(found) > _SHOWN else ""
    return ",".join(found[:_SHOWN]) + more or nothing


def claim_status(claim: Json, _now: datetime) -> str:
    """The phase, or that it is going."""
    if "deletionTimestamp" in claim["metadata"]:
        return "Terminating"
    return str(find(claim, ".status.phase") or "")


def claim_capacity(claim: Json, _now: datetime) -> str:
    """How large the volume is, once there is one."""
    if not find(claim, ".spec.volumeName"):
        return ""
    return str(find(claim, ".status.capacity.storage") or "0")


def claim_access(claim: Json, _now: datetime) -> str:
    """How the volume is used, once there is one: ``RWO``."""
    modes = find(claim, ".status.accessModes") if find(claim, ".spec.volumeName") else None
    return ",".join(shown for mode, shown in _ACCESS.items() if mode in (modes or ()))


def bound_role(binding: Json, _now: datetime) -> str:
    """The role of a binding: ``Role/reader``."""
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def subjects(kind: str) -> Cell:
    """Who of a kind has the role of a binding."""

    def cell(binding: Json, _now: datetime) -> str:
        found = [one for one in binding.get("subjects") or () if one.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{one.get('namespace', '')}/{one['name']}" for one in found)
        return ", ".join(one["name"] for one in found)

    return cell


def controller(obj: Json, _now: datetime) -> str:
    """Whose object this is: ``statefulset.apps/web``."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return "<none>"


def event_first_seen(event: Json, now: datetime) -> str:
    """When the event happened first."""
    when = event.get("firstTimestamp") or event.get("eventTime")
    return age_since(when, now) if when else "<unknown>"


def event_last_seen(event: Json, now: datetime) -> str:
    """When it happened the last time.

    Source: ``printEvent``.
    """
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp")
    return age_since(last, now) if last else event_first_seen(event, now)


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
    """Finished pods of the wanted ones; any of those that run together will do without a number."""
    done, wanted = find(job, ".status.succeeded") or 0, find(job, ".spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    together = find(job, ".spec.parallelism") or 0
    return f"{done}/1 of {together}" if together > 1 else f"{done}/1"


def job_status(job: Json, _now: datetime) -> str:
    """How the Job stands."""
    held = {
        one.get("type")
        for one in find(job, ".status.conditions") or ()
        if one.get("status") == "True"
    }
    for state in _JOB_ENDS:
        if state in held:
            return state
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((state for state in _JOB_STATES if state in held), "Running")


def suspended(obj: Json, _now: datetime) -> str:
    """Whether a CronJob rests."""
    return str(find(obj, ".spec.suspend") is True)


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
