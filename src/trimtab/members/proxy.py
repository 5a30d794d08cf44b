"""Lets users reach any member at `clusters/{name}/proxy`: the member sees who calls, not the control plane."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from trimtab.client.kube import KubeClient
from trimtab.errors import Unavailable
from trimtab.server.auth.user import AUTHENTICATED, UNAUTHENTICATED
from trimtab.server.http.messages import Answer, Ask, Stream
from trimtab.server.http.routes import truthy

Server = Callable[[Ask], Awaitable[Answer | Stream]]
Find = Callable[[str], Server | KubeClient | None]
"""Who serves the API of the cluster of this name: somebody in this process, somebody far away, or nobody."""

_DOOR = "/proxy"
_ABOUT_THE_CALLER = ("authorization", "impersonate-")
_ABOUT_THE_CONNECTION = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive", "te", "upgrade"}
)


class Proxy:
    """Hands requests on."""

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
    """Over HTTP: our credentials there may act for others."""
    user = ask.caller.user
    sent = [(name, text) for name, text in headers.items() if name not in _ABOUT_THE_CONNECTION]
    sent.append(("Impersonate-User", user.name))
    sent += [("Impersonate-Group", group) for group in user.groups if group not in (AUTHENTICATED, UNAUTHENTICATED)]
    try:
        answer = await client.forward(ask.method, path, ask.query, sent, ask.body)
    except (aiohttp.ClientError, OSError) as fault:
        raise Unavailable(f"the cluster does not answer: {fault}") from fault
    media = answer.headers.get("Content-Type", "")
    if answer.status == 200 and (truthy(ask.query.get("watch", "")) or truthy(ask.query.get("follow", ""))):
        return Stream(_chunks(answer), media)
    async with answer:
        return Answer(answer.status, await answer.read(), media, verbatim=True)


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with answer:
        async for chunk in answer.content.iter_any():
            yield chunk
