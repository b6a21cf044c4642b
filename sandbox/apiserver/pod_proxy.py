"""The subresource ``pods/proxy``: a GET of a path of a pod.

Source: ``ProxyREST``, k8s.io/kubernetes pkg/registry/core/pod/rest/subresources.go. A real API
server refuses addresses on loopback, which are those of processes beside the sandbox.
"""

from urllib.parse import quote, urlencode

import aiohttp

from sandbox import errors
from sandbox.apiserver.answers import Answer
from sandbox.apiserver.requests import Place, Request
from sandbox.objects.resources import PODS
from sandbox.objects.store import Store

_DEFAULT_PORT = "80"
_LIMIT = aiohttp.ClientTimeout(total=30)


async def proxied(store: Store, request: Request, place: Place) -> Answer:
    """Return the answer of a pod. Its name in the path may have a port: ``web-1:8080``.

    The caller's credentials aren't sent.

    Raises:
        ApiError: 404, there is no such pod; 400, it has no address; 503, it doesn't answer.
    """
    name, _, port = place.name.partition(":")
    pod = store.existing(PODS, place.namespace, name).object(PODS)
    address = (pod.get("status") or {}).get("podIP")
    if not address:
        raise errors.bad_request("address not allowed")
    query = f"?{urlencode(request.query)}" if request.query else ""
    url = f"http://{address}:{port or _DEFAULT_PORT}/{quote(place.subpath)}{query}"
    try:
        async with aiohttp.ClientSession(timeout=_LIMIT) as session, session.get(url) as answer:
            return Answer(
                status=answer.status, body=await answer.read(), content_type=answer.content_type
            )
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise errors.unreachable_service(str(error)) from error
