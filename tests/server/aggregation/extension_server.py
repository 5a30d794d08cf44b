"""Another API server on a real TLS socket that demands the certificate of a front proxy, and records its requests."""

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from server.asgi import AsgiClient
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import CertificateAuthority, ensure_front_proxy, ensure_signing_authority
from trimtab.server.auth.signing import issue
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.store.store import Store

GROUP, VERSION = "wardle.example.com", "v1alpha1"
ROOT = f"/apis/{GROUP}/{VERSION}"
NAME = f"{VERSION}.{GROUP}"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
TOKEN = "token-of-alice"
ALICE = User("alice", (AUTHENTICATED, "team"), extra=(("example.org/realm", ("north",)),))
SERVER_NAME = "extension.default.svc"
FLUNDER = {"kind": "Flunder", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {"name": "one"}}
RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {
            "name": "flunders",
            "singularName": "flunder",
            "namespaced": True,
            "kind": "Flunder",
            "verbs": ["get", "list"],
        },
        {"name": "flunders/status", "singularName": "", "namespaced": True, "kind": "Flunder", "verbs": ["get"]},
        {"name": 3, "kind": None},
    ],
}
DEFINITION = {"type": "object", "description": "A flunder.", "properties": {"spec": {"type": "object"}}}
OPERATION = {
    "description": "read",
    "parameters": [{"$ref": "#/parameters/pretty"}],
    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/com.example.wardle.Flunder"}}},
}
SWAGGER = {
    "swagger": "2.0",
    "paths": {f"{ROOT}/flunders": {"get": OPERATION}, "/apis/apps/v1/deployments": {"get": OPERATION}},
    "definitions": {"com.example.wardle.Flunder": DEFINITION},
    "parameters": {"pretty": {"name": "pretty", "in": "query", "type": "string"}},
}
DOCUMENTS: dict[str, Any] = {
    ROOT: RESOURCES,
    "/openapi/v2": SWAGGER,
    "/openapi/v3": {"paths": {f"apis/{GROUP}/{VERSION}": {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=ABC1"}}},
    f"/openapi/v3{ROOT}": {"openapi": "3.0.0"},
    f"{ROOT}/namespaces/default/flunders/one": FLUNDER,
}


class ReceivedRequest(NamedTuple):
    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class ExtensionServer:
    """Answers from documents, or with raw bytes for the paths in `answers`."""

    def __init__(self) -> None:
        self.documents = dict(DOCUMENTS)
        self.answers: dict[str, bytes] = {}
        self.requests: list[ReceivedRequest] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        length = next((int(value) for name, value in headers if name == "content-length"), 0)
        request = ReceivedRequest(first, headers, await reader.readexactly(length))
        path = first.split(" ")[1].partition("?")[0]
        if not request.values("x-remote-user") or request.values("x-remote-user") != ["system:kube-aggregator"]:
            self.requests.append(request)
        if path in self.answers:
            writer.write(self.answers[path])
            await writer.drain()
            return
        document = self.documents.get(path)
        body = json.dumps(document or {"kind": "Status", "code": 404}).encode()
        status = "200 OK" if document else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()


class Scene(NamedTuple):
    """An API server, and another one that an APIService may register."""

    client: AsgiClient
    extension: ExtensionServer
    port: int
    bundle: str

    async def register(self, *, host: str = "127.0.0.1", **spec: Any) -> None:
        """Create the Service and the APIService."""
        service = {"type": "ExternalName", "externalName": host}
        body = {"metadata": {"name": "extension"}, "spec": service}
        assert (await self.client("POST", "/api/v1/namespaces/default/services", body)).status == 201
        await self.create_api_service(**spec)

    async def create_api_service(self, **spec: Any) -> None:
        place = {"namespace": "default", "name": "extension", "port": self.port}
        wanted = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 2000,
            "versionPriority": 200,
            "service": place,
            "caBundle": self.bundle,
        }
        body = {"metadata": {"name": NAME}, "spec": {key: v for key, v in (wanted | spec).items() if v is not None}}
        created = await self.client("POST", API_SERVICES, body)
        assert created.status == 201, created.body

    async def condition(self, status: str) -> dict[str, Any]:
        """The condition `Available`, once it has this status."""
        async with asyncio.timeout(20):
            while True:
                found = (await self.client("GET", f"{API_SERVICES}/{NAME}")).json()
                for one in (found.get("status") or {}).get("conditions") or ():
                    if one["type"] == "Available" and one["status"] == status:
                        return dict(one)
                await asyncio.sleep(0.01)


def with_extension_server(directory: Path, scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        now = datetime.now(UTC)
        own, front_proxy = directory / "extension", directory / "front-proxy"
        authority: CertificateAuthority = ensure_signing_authority(own, "extension-ca", now)
        issue(authority, "server", "extension", [], [SERVER_NAME], now=now)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.certificate_and_key("server"))
        context.load_verify_locations(ensure_front_proxy(front_proxy, now).certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        extension = ExtensionServer()
        listener = await asyncio.start_server(extension.serve, "127.0.0.1", 0, ssl=context)
        server = ApiServer(
            Store(), ApiServerSettings(front_proxy=front_proxy, api_services=True, static_tokens={TOKEN: ALICE})
        )
        await server.start()
        try:
            bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
            port = listener.sockets[0].getsockname()[1]
            await scenario(Scene(AsgiClient(server), extension, port, bundle))
        finally:
            await server.stop()
            listener.close()

    asyncio.run(run())
