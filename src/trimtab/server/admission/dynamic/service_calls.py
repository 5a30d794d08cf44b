"""Calls of webhooks by their `clientConfig`: an address, or a Service with pods, addresses or an external name.

The pods of a simulated cluster listen on no socket. Their server answers in this process, after a TLS handshake in
memory, so that a certificate that the configuration does not trust is refused as on a network.
"""

import asyncio
import contextlib
import re
import ssl
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

import orjson

from trimtab.api.value import Raw
from trimtab.server.admission.dynamic.webhook_calls import CallFailed, post_review, tls_context
from trimtab.store.keys import key_below, resource_prefix
from trimtab.store.store import Store

_PODS, _SERVICES, _ENDPOINTS = (resource_prefix("", name) for name in ("pods", "services", "endpoints"))
_HTTPS_PORT = 443
_PAGE = re.compile(r"\s*<(?:!doctype html|html|head|body|title|h1|div|table|a|b|p|br|!--)[\s>]", re.IGNORECASE)


class ServerRequest(NamedTuple):
    """An HTTP request to the server of a simulated container."""

    path: str
    """Without the query."""
    body: bytes = b""
    method: str = "GET"
    port: int = 0
    tls: bool = False


class ServerAnswer(NamedTuple):
    """What the server of a simulated container answers."""

    status: int
    body: str
    delay_seconds: float = 0.0
    certificate: str = ""
    """PEM text of the certificate and its key; empty for a server without TLS."""
    key: str = ""
    media_type: str = ""
    """Empty: guessed from the body."""

    @property
    def content_type(self) -> str:
        """What a server says about its body, or what one in Go guesses."""
        is_page = _PAGE.match(self.body) is not None
        return self.media_type or f"text/{'html' if is_page else 'plain'}; charset=utf-8"


class ContainerServers(Protocol):
    """The servers in the containers of a simulated cluster."""

    def respond(self, pod: Raw, request: ServerRequest) -> ServerAnswer | None:
        """The answer to an HTTP request; None when nothing listens there."""


class ServiceAddress(NamedTuple):
    """Where a Service leads to: a pod of a simulated cluster, or a host and port."""

    pod: Raw | None
    host: str
    port: int


class ServiceCalls:
    """Sends requests to webhooks; without containers every Service is an address on the network."""

    def __init__(self, store: Store, containers: ContainerServers | None = None) -> None:
        self._store = store
        self._containers = containers

    async def post(self, client_config: Raw, body: bytes, seconds: float) -> bytes:
        """The body of the answer to a POST; raises `CallFailed`."""
        url = with_timeout(_url_of(client_config), seconds)
        try:
            async with asyncio.timeout(seconds):  # for the whole answer: a slow one must not hold the write
                if client_config.get("url"):
                    return await post_review(url, body, tls_context(client_config))
                return await self._post_to_service(client_config, url, body)
        except TimeoutError:
            raise CallFailed(f'failed to call webhook: Post "{url}": context deadline exceeded') from None

    async def _post_to_service(self, client_config: Raw, url: str, body: bytes) -> bytes:
        service = client_config.get("service") or {}
        namespace, name = service.get("namespace") or "", service.get("name") or ""
        address = self.find_address(namespace, name, int(service.get("port") or _HTTPS_PORT))
        if address is None:
            raise CallFailed(f'failed to call webhook: service "{name}" not found')
        context, path = tls_context(client_config), service.get("path") or "/"
        if address.pod is None:
            query = url.partition("?")[2]
            return await post_review(f"https://{address.host}:{address.port}{path}?{query}", body, context)
        answer = self.respond(address, path, body)
        if answer is None:
            raise CallFailed(f'failed to call webhook: Post "{url}": no endpoints available for service "{name}"')
        if answer.delay_seconds:
            await asyncio.sleep(answer.delay_seconds)
        if fault := handshake_fault(context, answer.certificate, answer.key, server_name(namespace, name)):
            raise CallFailed(f'failed to call webhook: Post "{url}": {fault}')
        if not 200 <= answer.status <= 206:
            raise CallFailed(f"failed to call webhook: the server responded with status {answer.status}")
        return answer.body.encode()

    def respond(self, address: ServiceAddress, path: str, body: bytes = b"") -> ServerAnswer | None:
        """The answer of the pod at an address."""
        if self._containers is None or address.pod is None:
            return None
        return self._containers.respond(address.pod, ServerRequest(path, body, "POST", address.port, tls=True))

    def find_address(self, namespace: str, name: str, port: int) -> ServiceAddress | None:
        """Where connections to a port of a Service lead to; None when there is no such Service."""
        entry = self._store.get(key_below(_SERVICES, name, namespace))
        if entry is None:
            return None
        spec = orjson.loads(entry.value).get("spec") or {}
        if spec.get("type") == "ExternalName":
            return ServiceAddress(None, spec.get("externalName") or "", port)
        ports = spec.get("ports") or ()
        named = next((one.get("name") or "" for one in ports if one.get("port") == port), "")
        for address in self.endpoints(namespace, name, named):
            if address.pod is None or self._containers is not None:
                return address
        return ServiceAddress(None, spec.get("clusterIP") or "", port)

    def endpoints(self, namespace: str, name: str, port_name: str | None = None) -> Iterator[ServiceAddress]:
        """The ready endpoints of a port, or of all ports."""
        entry = self._store.get(key_below(_ENDPOINTS, name, namespace))
        for subset in (orjson.loads(entry.value).get("subsets") or ()) if entry is not None else ():
            ports = subset.get("ports") or ()
            number = next((one["port"] for one in ports if port_name in (None, one.get("name") or "")), None)
            if number is None:
                continue
            for address in subset.get("addresses") or ():
                pod = (address.get("targetRef") or {}).get("name")
                found = self._store.get(key_below(_PODS, pod, namespace)) if pod else None
                if found is not None or not pod:
                    yield ServiceAddress(orjson.loads(found.value) if found else None, address["ip"], number)


def server_name(namespace: str, service: str) -> str:
    """The name that the certificate of a Service's server must have."""
    return f"{service}.{namespace}.svc"


def _url_of(client_config: Raw) -> str:
    """The address as messages name it."""
    if client_config.get("url"):
        return str(client_config["url"])
    service = client_config.get("service") or {}
    host = server_name(service.get("namespace") or "", service.get("name") or "")
    return f"https://{host}:{service.get('port') or _HTTPS_PORT}{service.get('path') or '/'}"


def with_timeout(url: str, seconds: float) -> str:
    """The address with the time that the server has to answer."""
    return f"{url}{'&' if '?' in url else '?'}timeout={seconds:g}s"


@lru_cache(maxsize=64)  # a handshake takes some milliseconds of CPU
def handshake_fault(context: ssl.SSLContext, certificate: str, key: str, name: str) -> str:
    """Why a client with this context refuses a server with this certificate; empty when it does not."""
    if not certificate:
        return "http: server gave HTTP response to HTTPS client"
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        server = _server_context(certificate, key).wrap_bio(to_server, to_client, server_side=True)
        client = context.wrap_bio(to_client, to_server, server_hostname=name)
        for _ in range(2):
            for side in (client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except (ssl.SSLError, OSError) as error:
        return f"tls: failed to verify certificate: {error}"
    return ""


def _server_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable by this user only; ssl reads only files
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        context.load_cert_chain(file.name)
    return context
