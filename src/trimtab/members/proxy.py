"""Forwards `clusters/{name}/proxy` requests to members, with the identity of the caller."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from trimtab.client.kube import KubeClient
from trimtab.errors import Unavailable
from trimtab.server.auth.user import AUTHENTICATED, UNAUTHENTICATED
from trimtab.server.request.messages import Answer, Ask, Stream
from trimtab.server.request.routes import truthy

Server = Callable[[Ask], Awaitable[Answer | Stream]]
Find = Callable[[str], Server | KubeClient | None]
"""The API server of the cluster: a handler in this process, a remote client, or `None`."""

_DOOR = "/proxy"
_ABOUT_THE_CALLER = ("authorization", "impersonate-")
_ABOUT_THE_CONNECTION = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive", "te", "upgrade"}
)


class Proxy:
    """Forwards requests to the API servers of members."""

    def __init__(self, find: Find) -> None:
        self._find = find

    async def answer(self, ask: Ask, cluster: str) -> Answer | Stream:
        server = self._find(cluster)
        if server is None:
            raise Unavailable(f"cluster {cluster} cannot be reached: it has neither an endpoint nor credentials here")
        path = ask.path.partition(f"/clusters/{cluster}{_DOOR}")[2] or "/"
        headers = {name: text for name, text in ask.headers.items() if not name.startswith(_ABOUT_THE_CALLER)}
        if not isinstance(server, KubeClient):
            ask.path, ask.headers, ask.certificate_user = path, headers, ask.caller.user
            return await server(ask)
        return await _far(server, ask, path, headers)


async def _far(client: KubeClient, ask: Ask, path: str, headers: dict[str, str]) -> Answer | Stream:
    """Forward over HTTP; our credentials in the member are allowed to impersonate the caller."""
    user = ask.caller.user
    sent = [(name, text) for name, text in headers.items() if name not in _ABOUT_THE_CONNECTION]
    sent.append(("Impersonate-User", user.name))
    sent += [("Impersonate-Group", group) for group in user.groups if group not in (AUTHENTICATED, UNAUTHENTICATED)]
    try:
        response = await client.forward(ask.method, path, ask.query, sent, ask.body)
    except (aiohttp.ClientError, OSError) as fault:
        raise Unavailable(f"the cluster does not respond: {fault}") from fault
    media = response.headers.get("Content-Type", "")
    if response.status == 200 and (truthy(ask.query.get("watch", "")) or truthy(ask.query.get("follow", ""))):
        return Stream(_chunks(response), media)
    async with response:
        return Answer(response.status, await response.read(), media, verbatim=True)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        async for chunk in response.content.iter_any():
            yield chunk
