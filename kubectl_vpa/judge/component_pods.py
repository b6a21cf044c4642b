"""What the pod of a component says about its program."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from common.variable_references import expand
from kubectl_vpa.judge.findings import ADMISSION, RECOMMENDER, UPDATER, ComponentPod

_OPS_PORTS = {RECOMMENDER: 8942, UPDATER: 8943, ADMISSION: 8944}  # defaults of --address
_OPS_PORT = "prometheus"  # the name of the port in the manifests, ours and the reference's


def component_pod(pod: Mapping[str, Any]) -> ComponentPod:
    """Return what is known of a component from its pod."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    container = (spec.get("containers") or [{}])[0]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    account = str(spec.get("serviceAccountName") or "default")
    variables = _variables(pod, container.get("env") or ())
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    made = ComponentPod(
        component=meta["labels"]["app"],
        namespace=meta["namespace"],
        name=meta["name"],
        account=f"system:serviceaccount:{meta['namespace']}:{account}",
        image=str(container.get("image") or ""),
        ready=any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
        arguments=tuple(expand(str(word), variables) for word in words),
    )
    return replace(made, port=_ops_port(made, container.get("ports") or ()))


def _variables(pod: Mapping[str, Any], declared: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the environment variables with a value or a field of the pod; others are unknown."""
    fields = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "spec.nodeName": (pod.get("spec") or {}).get("nodeName") or "",
    }
    found: dict[str, str] = {}
    for each in declared:
        source = each.get("valueFrom")
        if source is None:
            found[each["name"]] = expand(each.get("value") or "", found)
        elif (path := (source.get("fieldRef") or {}).get("fieldPath")) in fields:
            found[each["name"]] = fields[path]
    return found


def _ops_port(pod: ComponentPod, ports: Sequence[Mapping[str, Any]]) -> int:
    """Return the port of the flag ``--address``, or else the declared one, or else the default."""
    given = pod.flags.get("address", "").rpartition(":")[2]
    if given.isdecimal():
        return int(given)
    declared = [int(each["containerPort"]) for each in ports if each.get("name") == _OPS_PORT]
    return declared[0] if declared else _OPS_PORTS[pod.component]
