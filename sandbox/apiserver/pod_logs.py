"""Logs of containers that really run: the answer of the pod's kubelet, passed on as it comes.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, ``LogLocation``.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import aiohttp
from yarl import URL

from sandbox.apiserver.requests import Place, Request
from sandbox.errors import bad_request, field_forbidden, field_invalid, invalid
from sandbox.objects.pod_resources import containers_of
from sandbox.objects.resources import NODES, PODS
from sandbox.objects.store import Store

Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_PATIENCE = aiohttp.ClientTimeout(total=None, sock_connect=5)  # who follows a log waits long
_FLAGS = ("follow", "previous", "timestamps")
_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
_SENTENCES = {0: "must be greater than or equal to 0", 1: "must be greater than 0"}
_TIME = "2006-01-02T15:04:05Z07:00"


class PodLogs:
    """Asks kubelets; their certificates are not verified, as real API servers do by default."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def stream(self, request: Request, place: Place, send: Send) -> bool:
        """Answer with a container's log; False if no kubelet has one.

        Raises:
            ApiError: 422, the options make no sense; 400, they can't be read, the pod has several
                containers and none is named, or the kubelet refuses, for example because there
                is no previous run.
        """
        url = self._url(request, place, _options(request, place.name))
        if url is None:
            return False
        try:
            async with (
                aiohttp.ClientSession(timeout=_PATIENCE, trust_env=False) as session,
                session.get(url, ssl=False) as answer,
            ):
                if answer.status == 400:
                    raise bad_request((await answer.text()).strip())
                if answer.status != 200:
                    return False
                headers = [(b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                async for chunk in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except aiohttp.ClientConnectorError:
            return False
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    def _url(self, request: Request, place: Place, options: Mapping[str, str]) -> URL | None:
        pod = self._store.get(PODS, place.namespace, place.name)
        if pod is None:
            return None
        found = pod.object(PODS)
        spec = found.get("spec") or {}
        node = self._store.get(NODES, "", spec.get("nodeName") or "")
        if node is None:
            return None
        container = wanted_container(found, request)
        status = node.object(NODES).get("status") or {}
        port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
        for address in status.get("addresses") or ():
            if address["type"] == "InternalIP" and port:
                return URL.build(
                    scheme="https",
                    host=address["address"],
                    port=port,
                    path=f"/containerLogs/{place.namespace}/{place.name}/{container}",
                    query=options,
                )
        return None


def _options(request: Request, name: str) -> dict[str, str]:
    """What the kubelet of the pod ``name`` is asked for.

    Source: ``ValidatePodLogOptions``, k8s.io/kubernetes pkg/apis/core/validation/validation.go.

    Raises:
        ApiError: 400, a number or a time can't be read; 422, it is out of range, or two of them
            contradict each other.
    """
    found = {flag: "true" for flag in _FLAGS if request.flag(flag)}
    causes = []
    since = request.query.get("sinceTime")
    for field, least in _LEAST.items():
        number = request.number(field)
        if number is None:
            continue
        if field == "sinceSeconds" and since is not None:
            told = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            causes.append(field_forbidden("[]", told))
        elif number < least:
            causes.append(field_invalid(field, number, _SENTENCES[least]))
        found[field] = str(number)
    if since is not None:
        try:
            datetime.fromisoformat(since)
        except ValueError as error:
            told = f'parsing time "{since}" as "{_TIME}": cannot parse "{since}" as "2006"'
            raise bad_request(told) from error
        found["sinceTime"] = since
    if "stream" in request.query:  # behind a gate that is off
        causes.append(field_forbidden("stream", "may not be specified"))
    if causes:
        raise invalid("PodLogOptions", name, causes)
    return found


def wanted_container(pod: Mapping[str, Any], request: Request) -> str:
    """The container whose log is asked for.

    Raises:
        ApiError: 400, none is named and there are several, or the pod has none of that name.
    """
    name = pod["metadata"]["name"]
    names: list[str] = [one["name"] for one in containers_of(pod)]
    usual: list[str] = [one["name"] for one in pod["spec"].get("containers") or ()]
    wanted = request.query.get("container", "")
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(usual) == 1:
        return usual[0]
    told = f"a container name must be specified for pod {name}, choose one of: "
    raise bad_request(f"{told}[{' '.join(names)}]")
