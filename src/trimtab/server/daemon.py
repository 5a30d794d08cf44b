"""An API server with its data directory: certificates, store, TLS listener and kubeconfig."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.clock import WallClock
from trimtab.errors import InputError, StoreError
from trimtab.server.admission.chain import AdmissionPlugin
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import ensure_authority, make_private, renew_certificates, write_secret
from trimtab.server.auth.kubeconfig import write_kubeconfig
from trimtab.server.auth.revocation import CHECK_SECONDS, RevokedCertificates
from trimtab.server.auth.revocation import FILE_NAME as REVOKED_CERTIFICATES
from trimtab.server.auth.token_keys import KeyRing, SharedSecret
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.flowcontrol.controller import FlowLimits
from trimtab.server.http.audit import Audit, AuditSettings
from trimtab.server.http.listener import Listener
from trimtab.server.storage.encryption import read_encryption
from trimtab.server.storage.formats import open_store
from trimtab.store.store import Store

log = logging.getLogger("trimtab.server")
ADMINISTRATOR = "trimtab-admin"
KEY_RING = "service-account-keys"
ADMINISTRATOR_USER = User(ADMINISTRATOR, (MASTERS, AUTHENTICATED))
_RENEWAL_CHECK_SECONDS = 3600.0
NAMESPACE_GRACE_SECONDS = 5.0
"""As kube-controller-manager: clients still see the objects of a namespace for a moment after its deletion."""
_SECRET_FILES = (
    "kubeconfig",
    f"pki/{KEY_RING}",
    f"pki/{KEY_RING}/*",
    "pki/front-proxy",
    "pki/front-proxy/*",
    "store.db*",
    "members",
    "members/*",
    "members/*/pki",
    "members/*/pki/*",
    "members/*/pki/front-proxy/*",
    "members/*/service-account.key",
    "members/*/store.db*",
)
"""What holds secrets in the data directory; `pki` is made private by itself."""


def _ensure_secret(path: Path, size: int = 32) -> bytes:
    """The secret in the file, generated on the first start."""
    if not path.exists():
        write_secret(path, secrets.token_hex(size).encode())
    return path.read_bytes().strip()


class RootServer(NamedTuple):
    """A further API server that gets a port of its own."""

    app: Any
    preferred_port: int = 0
    """The port of an earlier start; 0 selects a free one."""


class ServedApplications(NamedTuple):
    """What a daemon serves."""

    app: Any
    """The ASGI application of the main port, which routes to the API server and to what is mounted beside it."""
    mounted_servers: Mapping[str, str] = {}
    """Path prefixes of further API servers in this application, by name."""
    root_servers: Mapping[str, RootServer] = {}
    """Further API servers at the root of a port of their own, by name."""


class Daemon:
    """Starts and stops one API server over TLS."""

    def __init__(
        self,
        directory: Path,
        bind: str,
        port: int,
        plugins: Sequence[AdmissionPlugin] = (),
        *,
        store_plugins: Sequence[Callable[[Store], AdmissionPlugin]] = (),
        flow_control: FlowLimits | None = FlowLimits(),  # noqa: B008 - a frozen value
        further_contexts: Sequence[str] = (),
        audit: AuditSettings | None = None,
        encryption: Path | None = None,
        bootstrap_tokens: bool = False,
        progress_columns: bool = False,
    ) -> None:
        """`further_contexts` are more names of this API server in the kubeconfig, `encryption` is a file with keys."""
        self._audit = Audit.open(audit, WallClock()) if audit is not None else None
        self.directory = directory.absolute()
        try:
            make_private(self.directory, *_SECRET_FILES)
        except OSError as error:
            raise StoreError(
                f"{self.directory} cannot be used as data directory: {error.strerror}; choose another with --data-dir"
            ) from error
        self.kubeconfig = self.directory / "kubeconfig"
        self._bind = bind
        self._port = port
        self._addresses = [] if bind in {"0.0.0.0", "::"} else [bind]  # noqa: S104 - compared, not bound
        store = open_store(self.directory, cipher=read_encryption(encryption) if encryption is not None else None)
        try:
            settings = self._load_secrets()
        except OSError as error:
            raise StoreError(
                f"{error.filename or self.directory} could not be read or written ({error.strerror}): free some space "
                f"for {self.directory}, and make it writable for this user"
            ) from error
        settings = settings._replace(
            plugins=plugins,
            store_plugins=store_plugins,
            flow_control=flow_control,
            bootstrap_tokens=bootstrap_tokens,
            fleet_roles=True,
            progress_columns=progress_columns,
        )
        self.api = ApiServer(store, settings)
        if self._audit is not None:
            self.api.app.audit = self._audit
            self.api.add_metrics(self._audit.samples)
        self._further_contexts = further_contexts
        self._mounted_servers: Mapping[str, str] = {}
        self._listener: Listener | None = None
        self._root_listeners: dict[str, Listener] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def _load_secrets(self) -> ApiServerSettings:
        """The certificates, the token of the administrator and the key of tokens; created on the first start."""
        self.authority = ensure_authority(self.directory / "pki", self._addresses)
        pki = self.authority.directory
        self.admin_token = _ensure_secret(pki / "admin.token").decode()
        earlier = pki / "service-account.key"
        self.token_keys = KeyRing(
            pki / KEY_RING, SharedSecret(earlier.read_bytes().strip()) if earlier.exists() else None
        )
        self.token_keys.rotate_if_old(datetime.now(UTC))
        self.revoked = RevokedCertificates(pki / REVOKED_CERTIFICATES)
        self.revoked.reload()
        return ApiServerSettings(
            static_tokens={self.admin_token: ADMINISTRATOR_USER},
            token_keys=self.token_keys,
            api_services=True,
            front_proxy=pki / "front-proxy",
            namespace_grace_seconds=NAMESPACE_GRACE_SECONDS,
        )

    @property
    def url(self) -> str:
        return self._url_of_port(self._listener.port if self._listener else self._port)

    def _url_of_port(self, port: int) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._bind, self._bind)  # noqa: S104
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    @property
    def server_urls(self) -> dict[str, str]:
        """The addresses of the further API servers, by name: at the root of a port where they have one."""
        mounted = {name: self.url + path for name, path in self._mounted_servers.items()}
        return mounted | {name: self._url_of_port(one.port) for name, one in self._root_listeners.items()}

    @property
    def server_ports(self) -> dict[str, int]:
        return {name: listener.port for name, listener in self._root_listeners.items()}

    @property
    def authority_certificate(self) -> bytes:
        """The certificate, in PEM, that clients of all these servers trust."""
        return self.authority.certificate.read_bytes()

    async def start(self, served: ServedApplications | None = None) -> None:
        """Listen; without `served` only for the API server itself."""
        served = served or ServedApplications(self.api.app)
        self._mounted_servers = served.mounted_servers
        await self.api.start()
        self._listener = Listener(served.app, self._bind, self._port, self.authority, revoked=self.revoked)
        await self._listener.start()
        for name, server in served.root_servers.items():
            self._root_listeners[name] = self._listen_on(server)
            await self._root_listeners[name].start()
        self._write_kubeconfig()
        create_task = asyncio.get_running_loop().create_task
        self._tasks = [create_task(self._renew_regularly()), create_task(self._watch_revocations())]

    def _listen_on(self, server: RootServer) -> Listener:
        """On the preferred port of a server, or on a free one when another process has taken that."""
        try:
            return Listener(server.app, self._bind, server.preferred_port, self.authority, revoked=self.revoked)
        except InputError:
            return Listener(server.app, self._bind, 0, self.authority, revoked=self.revoked)

    def trust_clients(self, name: str, certificate: Path) -> None:
        """Let one server with a port of its own accept clients of a further authority; no other server does."""
        if (listener := self._root_listeners.get(name)) is not None:
            listener.trust(certificate)

    def _write_kubeconfig(self) -> None:
        names = {"trimtab": self.url, **dict.fromkeys(self._further_contexts, self.url)}
        try:
            write_kubeconfig(self.kubeconfig, self.authority, {**names, **self.server_urls})
        except OSError as error:
            log.warning(
                "%s was not written (%s): it does not have the address %s", self.kubeconfig, error.strerror, self.url
            )

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_CHECK_SECONDS)
            try:
                await self.renew_certificates(datetime.now(UTC))
                await asyncio.to_thread(self.token_keys.rotate_if_old, datetime.now(UTC))
            except (OSError, InputError) as error:
                log.warning("certificates cannot be renewed; trying again in an hour: %s", error)

    async def _watch_revocations(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.reload_revocations()

    async def reload_revocations(self) -> None:
        """Refuse certificates that were revoked since the last time, and close their connections."""
        try:
            changed = self.revoked.reload()
        except (OSError, InputError, UnicodeDecodeError) as error:
            log.warning("the list of revoked certificates cannot be read, the last one is used: %s", error)
            return
        if changed:
            log.warning("%d certificates are revoked", len(self.revoked.serials))
            for listener in self._listeners:
                listener.close_revoked()
            # The administrator's certificate may be among them; `trimtab revoke-certificate` has removed it then.
            await self.renew_certificates(datetime.now(UTC))

    @property
    def _listeners(self) -> list[Listener]:
        return [*self._root_listeners.values(), *([self._listener] if self._listener is not None else [])]

    async def renew_certificates(self, now: datetime) -> None:
        """Renew the certificates that are near their end; new connections and the kubeconfig use the new ones."""
        renewed = await asyncio.to_thread(renew_certificates, self.authority, self._addresses, now)
        if renewed and self._listener is not None:
            for listener in self._listeners:
                listener.reload_certificates(self.authority)
            self._write_kubeconfig()
            log.info("renewed certificates: %s", ", ".join(renewed))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.api.app.end_streams()
        await asyncio.gather(*(listener.stop() for listener in self._listeners))
        await self.api.stop()
        if self._audit is not None:
            self._audit.close()
