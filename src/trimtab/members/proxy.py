"""Forwards `clusters/{name}/proxy` requests to members, with the identity of the caller."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from trimtab.client.kube import KubeClient
from trimtab.errors import Unavailable
from trimtab.server.auth.user import AUTHENTICATED, UNAUTHENTICATED
from trimtab.server.request.messages import Request, Response, StreamingResponse
from trimtab.server.request.routes import is_true

ServeRequest = Callable[[Request], Awaitable[Response | StreamingResponse]]
FindServer = Callable[[str], ServeRequest | KubeClient | None]
"""The API server of the cluster: a handler in this process, a remote client, or `None`."""

_PROXY_SUFFIX = "/proxy"
_CREDENTIAL_HEADERS = ("authorization", "impersonate-")
_CONNECTION_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive", "te", "upgrade"}
)


class MemberProxy:
    """Forwards requests to the API servers of members."""

    def __init__(self, find: FindServer) -> None:
        self._find = find

    async def forward(self, request: Request, cluster: str) -> Response | StreamingResponse:
        server = self._find(cluster)
        if server is None:
            raise Unavailable(f"cluster {cluster} cannot be reached: it has neither an endpoint nor credentials here")
        path = request.path.partition(f"/clusters/{cluster}{_PROXY_SUFFIX}")[2] or "/"
        headers = {name: text for name, text in request.headers.items() if not name.startswith(_CREDENTIAL_HEADERS)}
        if not isinstance(server, KubeClient):
            request.path, request.headers, request.certificate_user = path, headers, request.caller.user
            request.impersonate_groups, request.impersonate_extra = [], []
            return await server(request)
        return await _forward_over_http(server, request, path, headers)


async def _forward_over_http(
    client: KubeClient, request: Request, path: str, headers: dict[str, str]
) -> Response | StreamingResponse:
    """Forward over HTTP; our credentials in the member are allowed to impersonate the caller."""
    user = request.caller.user
    sent = [(name, text) for name, text in headers.items() if name not in _CONNECTION_HEADERS]
    sent.append(("Impersonate-User", user.name))
    sent += [("Impersonate-Group", group) for group in user.groups if group not in (AUTHENTICATED, UNAUTHENTICATED)]
    try:
        response = await client.forward(request.method, path, request.query, sent, request.body)
    except (aiohttp.ClientError, OSError) as fault:
        raise Unavailable(f"the cluster does not respond: {fault}") from fault
    media = response.headers.get("Content-Type", "")
    if response.status == 200 and (is_true(request.query.get("watch", "")) or is_true(request.query.get("follow", ""))):
        return StreamingResponse(_chunks(response), media)
    async with response:
        return Response(response.status, await response.read(), media, verbatim=True)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        async for chunk in response.content.iter_any():
            yield chunk
