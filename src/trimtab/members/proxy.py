"""Forwards `clusters/{name}/proxy` requests to members, with the identity of the caller."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote

import aiohttp

from trimtab.client.kube import KubeClient
from trimtab.client.responses import read_body
from trimtab.errors import BadRequest, Unavailable
from trimtab.server.auth.user import AUTHENTICATED, UNAUTHENTICATED
from trimtab.server.request.messages import ForwardedResponse, Request, Response, StreamingResponse
from trimtab.server.request.routes import is_true

log = logging.getLogger("trimtab.members")

ServeRequest = Callable[[Request], Awaitable[ForwardedResponse]]
FindServer = Callable[[str], ServeRequest | KubeClient | None]
"""The API server of the cluster: a handler in this process, a remote client, or `None`."""

_PROXY_SUFFIX = "/proxy"
_DOTS = frozenset((".", ".."))
_CREDENTIAL_HEADERS = ("authorization", "cookie", "impersonate-", "proxy-authorization", "x-remote-")
"""What identifies the caller here, for example the console's session; a member must not see it."""
_CONNECTION_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive", "te", "upgrade"}
)


class MemberProxy:
    """Forwards requests to the API servers of members."""

    def __init__(self, find: FindServer) -> None:
        self._find = find

    async def forward(self, request: Request, cluster: str) -> ForwardedResponse:
        return await self.forward_path(
            request, cluster, request.path.partition(f"/clusters/{cluster}{_PROXY_SUFFIX}")[2] or "/"
        )

    async def forward_path(self, request: Request, cluster: str, path: str) -> ForwardedResponse:
        """Forward a request to a path of the member's API server."""
        _check_path(path)
        server = self._find(cluster)
        if server is None:
            raise Unavailable(f"cluster {cluster} cannot be reached: it has neither an endpoint nor credentials here")
        headers = {name: text for name, text in request.headers.items() if not name.startswith(_CREDENTIAL_HEADERS)}
        if not isinstance(server, KubeClient):
            request.path, request.headers, request.certificate_user = path, headers, request.caller.user
            request.impersonate_groups, request.impersonate_extra = [], []
            return await server(request)
        return await _forward_over_http(server, request, path, headers)


def _check_path(path: str) -> None:
    """Refuse a path that could lead to another host or, below a server's own path, to other pages than the member's.

    Without a slash at its start the rest of an encoded address such as `%2F@host` would become part of the authority.
    """
    if not path.startswith("/"):
        raise BadRequest("the path behind proxy must start with a slash that is not encoded")
    if not _DOTS.isdisjoint(unquote(path).split("/")):
        raise BadRequest("the path behind proxy must not have the parts . and ..")


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
        if not 200 <= response.status < 600:
            response.close()
            raise Unavailable(f"the cluster responded with status {response.status}, which cannot be forwarded")
        media = response.headers.get("Content-Type", "")
        if response.status == 200 and _is_streamed(request):
            return StreamingResponse(_chunks(response), media)
        async with response:
            return Response(response.status, await read_body(response), media, verbatim=True)
    except (aiohttp.ClientError, OSError, ValueError) as fault:
        raise Unavailable(f"the cluster does not respond: {str(fault) or type(fault).__name__}") from fault


def _is_streamed(request: Request) -> bool:
    return any(is_true(request.query.get(parameter, "")) for parameter in ("watch", "follow"))


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The chunks until the member ends the stream; a broken connection ends it as well, and clients watch again."""
    async with response:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as fault:
            log.warning("the stream of a member ended early", extra={"error": str(fault)})
