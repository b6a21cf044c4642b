"""The admission plugin ServiceAccount: a new pod has an account, and that account's token.

Source: k8s.io/kubernetes plugin/pkg/admission/serviceaccount/admission.go.
"""

from random import Random
from typing import Any

from sandbox.admission.request import AdmissionRequest
from sandbox.errors import forbidden
from sandbox.objects.metadata import generated_name
from sandbox.objects.resources import PODS, SERVICE_ACCOUNTS
from sandbox.objects.store import Store

Json = dict[str, Any]

ROOT_AUTHORITY = "kube-root-ca.crt"
"""The ConfigMap of each namespace that tells whom to trust."""

_PREFIX = "kube-api-access-"
_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
_MODE = 0o644
_MIRROR = "kubernetes.io/config.mirror"


class PodAccounts:
    """Gives every new pod its account; a pod whose account isn't there is refused."""

    def __init__(self, store: Store, rng: Random) -> None:
        self._store = store
        self._rng = rng

    def admit(self, request: AdmissionRequest) -> None:
        """Complete ``request.object`` in place, if it is a new pod.

        Raises:
            ApiError: 403, its service account doesn't exist.
        """
        if not request.is_pod_create or request.object is None:
            return
        pod, spec = request.object, request.object["spec"]
        if _MIRROR in (pod["metadata"].get("annotations") or {}):
            return
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        stored = self._store.get(SERVICE_ACCOUNTS, request.namespace, name)
        if stored is None:
            meta = pod["metadata"]
            raise forbidden(
                PODS,
                request.name or meta.get("name", "") or meta.get("generateName", ""),
                f"error looking up service account {request.namespace}/{name}: "
                f'serviceaccount "{name}" not found',
            )
        account = stored.object(SERVICE_ACCOUNTS)
        if _automounts(account, spec):
            self._mount(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = list(account["imagePullSecrets"])

    def _mount(self, spec: Json) -> None:
        volumes = spec.get("volumes") or []
        names = [one["name"] for one in volumes if one.get("name", "").startswith(_PREFIX)]
        name = names[0] if names else generated_name(_PREFIX, self._rng)
        mounted = False
        for kind in ("initContainers", "containers"):
            for container in spec.get(kind) or ():
                mounts = container.setdefault("volumeMounts", [])
                if any(one.get("mountPath") == _FOLDER for one in mounts):
                    continue
                mounts.append({"name": name, "readOnly": True, "mountPath": _FOLDER})
                mounted = True
        if mounted and not names:
            spec["volumes"] = [*volumes, _volume(name)]


def _automounts(account: Json, spec: Json) -> bool:
    """Whether the token is wanted: the pod decides, else the account, else yes."""
    for one in (spec, account):
        wanted = one.get("automountServiceAccountToken")
        if wanted is not None:
            return bool(wanted)
    return True


def _volume(name: str) -> Json:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_AUTHORITY, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": _MODE}}
