"""Serves the groups of APIServices whose Service leads to another API server.

An APIService without a Service is a version that this server serves itself. One with a Service sends all requests for its
group and version to another server, after this one has authenticated the caller and checked its rights. The other server
trusts the client certificate of this one, and reads the caller from headers (`remote_server`).

Nothing runs until such an APIService exists. Then a task asks each of these servers regularly for its documents and writes the
condition `Available`. Requests are refused with 503 while that is not true, so that one server that is gone costs nobody a
time-out. What this server serves itself takes precedence: an APIService cannot replace a built-in group or a CRD.
"""

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import orjson

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import ApiError, InputError
from trimtab.server.admission.dynamic.service_calls import ServiceCalls, server_name
from trimtab.server.aggregation.remote_address import Address, CannotReach, ClientFiles
from trimtab.server.aggregation.remote_documents import read_json, resource_entries, schema_hash, swagger_of_group
from trimtab.server.auth.certificates import FRONT_PROXY, ensure_front_proxy
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, Caller, User
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.messages import Request, Response, StreamingResponse
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath, RemoteVersion
from trimtab.store.keys import key_below, resource_prefix
from trimtab.tasks import stop_tasks

if TYPE_CHECKING:
    from trimtab.server.aggregation.remote_server import RemoteServer

GROUP = "apiregistration.k8s.io"
_PREFIX, _SERVICES = resource_prefix(GROUP, "apiservices"), resource_prefix("", "services")
_TRUST_NAMESPACE, _TRUST_NAME = "kube-system", "extension-apiserver-authentication"
_AVAILABLE = "Available"
_HTTPS_PORT = 443
_CHECK_SECONDS, _RETRY_SECONDS = 30.0, 5.0
_FETCH_SECONDS = 5.0
_USER = User("system:kube-aggregator", (MASTERS, AUTHENTICATED))
_CALLER = Caller(_USER, "kube-aggregator")
_UNAVAILABLE = Response(503, b"service unavailable\n", "text/plain; charset=utf-8", verbatim=True)
_REQUEST_HEADERS = {
    "requestheader-allowed-names": [FRONT_PROXY],
    "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
    "requestheader-group-headers": ["X-Remote-Group"],
    "requestheader-username-headers": ["X-Remote-User"],
}
_READER_ROLE: Raw = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": f"{_TRUST_NAME}-reader", "namespace": _TRUST_NAMESPACE},
    "rules": [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [_TRUST_NAME],
            "verbs": ["get", "list", "watch"],
        }
    ],
}
log = logging.getLogger("trimtab.server")


class Availability(NamedTuple):
    """The condition `Available` of an APIService."""

    is_available: bool
    reason: str
    message: str


_PASSED = Availability(True, "Passed", "all checks passed")


class _RemoteService:
    """What is known of one APIService."""

    def __init__(self, name: str, spec: Raw) -> None:
        self.name, self.spec = name, spec
        self.group, self.version = spec.get("group") or "", spec.get("version") or ""
        self.server: RemoteServer | None = None
        self.known = RemoteVersion(spec.get("groupPriorityMinimum") or 0)

    async def close(self) -> None:
        if self.server is not None:
            await self.server.close()


class Aggregator:
    """The other API servers of one API server."""

    def __init__(self, resource_store: ResourceStore, calls: ServiceCalls, directory: Path | None) -> None:
        """`directory` keeps the authority and the certificate of the front proxy; without it no other server is called."""
        self._resource_store, self._calls, self._directory = resource_store, calls, directory
        self._catalogue, self._store = resource_store.catalogue, resource_store.store
        self._services: dict[tuple[str, str], _RemoteService] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_started = False

    def start(self) -> None:
        self._is_started = self._directory is not None
        self.reload()

    def reload(self) -> None:
        """Follow the APIServices in the store; called after every write of one."""
        if not self._is_started or not (self._services or any(self._registrations())):
            return
        self._changed.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="API servers of APIServices")

    def _registrations(self) -> Iterator[tuple[tuple[str, str], Raw]]:
        """The specs of the APIServices with a Service, by group and version."""
        for entry in self._store.list(_PREFIX).entries:
            spec = orjson.loads(entry.value).get("spec") or {}
            if spec.get("service"):
                yield (spec.get("group") or "", spec.get("version") or ""), spec

    def serves(self, group: str, version: str) -> bool:
        """Whether another server serves a version of a group."""
        return (group, version) in self._catalogue.remote

    async def forward(self, request: Request, group: str, version: str) -> Response | StreamingResponse:
        """The answer of the other server to a request that this one has authorized."""
        service = self._services.get((group, version))
        if service is None or service.server is None or not service.known.is_available:
            return _UNAVAILABLE
        return await service.server.forward(request)

    async def stop(self) -> None:
        if self._task is not None:
            await stop_tasks([self._task], log)
        for service in self._services.values():
            await service.close()

    async def _run(self) -> None:
        endpoints = asyncio.ensure_future(self._watch_services())
        try:
            while True:
                self._changed.clear()
                await self._follow_registrations()
                results = await asyncio.gather(*(self._check(one) for one in self._services.values()))
                delay = _CHECK_SECONDS if all(results) else _RETRY_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._changed.wait()
        finally:
            endpoints.cancel()

    async def _watch_services(self) -> None:
        """Check again when a Service changes: its server may be reachable now, or no longer."""
        async for _ in self._store.watch(_SERVICES):
            self._changed.set()

    async def _follow_registrations(self) -> None:
        wanted = dict(self._registrations())
        for key, service in list(self._services.items()):
            if wanted.get(key) != service.spec:
                del self._services[key]
                await service.close()
        for key, spec in wanted.items():
            if key not in self._services:
                self._services[key] = _RemoteService(f"{key[1]}.{key[0]}", spec)
        self._publish()

    def _publish(self) -> None:
        """Show in the discovery documents what the other servers serve."""
        self._catalogue.replace_remote(
            {key: one.known for key, one in self._services.items() if not self._catalogue.serves_version(*key)}
        )

    async def _check(self, service: _RemoteService) -> bool:
        """Ask one server for its documents, and report whether it answers."""
        try:
            found = await self._probe(service)
            service.known = service.known._replace(is_available=found.is_available)
            self._publish()
            await self._report(service, found)
        except (ApiError, InputError, OSError) as fault:  # the next check tries again
            log.warning("APIService", extra={"apiservice": service.name, "error": str(fault)})
            return False
        return found.is_available

    async def _probe(self, service: _RemoteService) -> Availability:
        if self._catalogue.serves_version(service.group, service.version):
            return Availability(False, "ServedLocally", "this server serves the version of the group itself")
        place = service.spec["service"]
        namespace, name = place.get("namespace") or "", place.get("name") or ""
        if self._store.get(key_below(_SERVICES, name, namespace)) is None:
            return Availability(False, "ServiceNotFound", f'service/{name} in "{namespace}" is not present')
        found = self._calls.find_address(namespace, name, int(place.get("port") or _HTTPS_PORT))
        if found is None or found.pod is not None or not found.host or found.host == "None":
            return Availability(
                False, "MissingEndpoints", f'endpoints for service/{name} in "{namespace}" have no addresses'
            )
        address = Address(
            found.host,
            found.port,
            server_name(namespace, name),
            service.spec.get("caBundle") or "",
            bool(service.spec.get("insecureSkipTLSVerify")),
        )
        try:
            await self._connect(service, address)
            await self._read_documents(service)
        except (CannotReach, ValueError) as fault:
            return Availability(False, "FailedDiscoveryCheck", str(fault)[:1024])
        return _PASSED

    async def _connect(self, service: _RemoteService, address: Address) -> None:
        """Use the address, which follows the Service, and the certificate, which is renewed before it ends."""
        assert self._directory is not None
        authority = await asyncio.to_thread(ensure_front_proxy, self._directory, self._resource_store.clock.now())
        files = ClientFiles(*authority.certificate_and_key(FRONT_PROXY), authority.certificate.read_text())
        if service.server is None or service.server.address != address or service.server.files != files:
            await self._publish_authority(files.authority)
            await service.close()
            service.server = _connect(address, files)

    async def _read_documents(self, service: _RemoteService) -> None:
        server, group, version = cast("RemoteServer", service.server), service.group, service.version
        listed = read_json(await server.fetch(f"/apis/{group}/{version}", _USER, _FETCH_SECONDS))
        known = service.known._replace(resources=resource_entries(listed, group, version))
        with _tolerate_missing_document("OpenAPI v3", service.name):
            index = read_json(await server.fetch("/openapi/v3", _USER, _FETCH_SECONDS))
            known = known._replace(schema_hash=schema_hash(index, group, version))
        if not known.definitions or known.schema_hash != service.known.schema_hash:
            with _tolerate_missing_document("OpenAPI v2", service.name):
                document = read_json(await server.fetch("/openapi/v2", _USER, _FETCH_SECONDS))
                paths, definitions = await asyncio.to_thread(swagger_of_group, document, group)
                known = known._replace(paths=paths, definitions=definitions)
        service.known = known

    async def _publish_authority(self, certificate: str) -> None:
        """Tell the other servers, in the object that all of them read, which front proxy to trust."""
        data = {key: orjson.dumps(value).decode() for key, value in _REQUEST_HEADERS.items()}
        data["requestheader-client-ca-file"] = certificate
        served = self._catalogue.find("", "v1", "configmaps")
        if served is None:
            return
        where = ObjectPath(served, _TRUST_NAMESPACE, _TRUST_NAME)
        metadata = {"name": _TRUST_NAME, "namespace": _TRUST_NAMESPACE}
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await self._resource_store.create_missing([wanted, _READER_ROLE], _CALLER)

        def change(obj: Raw) -> DesiredObject:
            return DesiredObject({**obj, "data": {**(obj.get("data") or {}), **data}})

        await self._resource_store.change(where, change, WriteOptions(field_manager=_CALLER.user_agent), _CALLER)

    async def _report(self, service: _RemoteService, found: Availability) -> None:
        """Write the condition `Available` if it has changed."""
        served = self._catalogue.find(GROUP, "v1", "apiservices")
        entry = self._store.get(key_below(_PREFIX, service.name))
        if served is None or entry is None:
            return
        status = "True" if found.is_available else "False"
        condition = {"type": _AVAILABLE, "status": status, "reason": found.reason, "message": found.message}
        old = _available_condition(orjson.loads(entry.value))
        if {**old, **condition} == old:
            return
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        condition["lastTransitionTime"] = since or timestamp(self._resource_store.clock.now())

        def change(obj: Raw) -> DesiredObject:
            others = [one for one in (obj.get("status") or {}).get("conditions") or () if one.get("type") != _AVAILABLE]
            return DesiredObject({**obj, "status": {"conditions": [*others, condition]}})

        where = ObjectPath(served, "", service.name, "status")
        await self._resource_store.change(where, change, WriteOptions(field_manager=_CALLER.user_agent), _CALLER)


def _connect(address: Address, files: ClientFiles) -> "RemoteServer":
    module = importlib.import_module("trimtab.server.aggregation.remote_server")  # slow; most servers never need it
    server: RemoteServer = module.RemoteServer(address, files)
    return server


def _available_condition(obj: Raw) -> Raw:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == _AVAILABLE), {})


@contextlib.contextmanager
def _tolerate_missing_document(what: str, name: str) -> Iterator[None]:
    """A server without a valid document of this kind is served all the same."""
    try:
        yield
    except (CannotReach, ValueError) as fault:
        log.info("an APIService has no %s document", what, extra={"apiservice": name, "error": str(fault)})
