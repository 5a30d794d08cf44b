"""An API server with its data directory: certificates, store, TLS listener and kubeconfig."""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.errors import InputError, StoreError
from trimtab.server.admission.chain import AdmissionPlugin
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import ensure_authority, make_private, renew_certificates, write_secret
from trimtab.server.auth.kubeconfig import write_kubeconfig
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.flowcontrol.controller import FlowLimits
from trimtab.server.http.listener import Listener
from trimtab.server.storage.formats import open_store

log = logging.getLogger("trimtab.server")
_RENEWAL_CHECK_SECONDS = 3600.0
_SECRET_FILES = (
    "kubeconfig",
    "store.db*",
    "members",
    "members/*",
    "members/*/service-account.key",
    "members/*/store.db*",
)
"""What holds secrets in the data directory; `pki` is made private by itself."""


def _ensure_secret(path: Path, size: int = 32) -> bytes:
    """The secret in the file, generated on the first start."""
    if not path.exists():
        write_secret(path, secrets.token_hex(size).encode())
    return path.read_bytes().strip()


class Daemon:
    """Starts and stops one API server over TLS."""

    def __init__(
        self,
        directory: Path,
        bind: str,
        port: int,
        plugins: Sequence[AdmissionPlugin] = (),
        *,
        flow_control: FlowLimits | None = FlowLimits(),  # noqa: B008 - a frozen value
    ) -> None:
        self.directory = directory.absolute()
        make_private(self.directory, *_SECRET_FILES)
        self.kubeconfig = self.directory / "kubeconfig"
        self._bind = bind
        self._port = port
        self._addresses = [] if bind in {"0.0.0.0", "::"} else [bind]  # noqa: S104 - compared, not bound
        store = open_store(self.directory)
        try:
            settings = self._load_secrets()
        except OSError as error:
            raise StoreError(
                f"{error.filename or self.directory} could not be read or written ({error.strerror}): free some space "
                f"for {self.directory}, and make it writable for this user"
            ) from error
        self.api = ApiServer(store, settings._replace(plugins=plugins, flow_control=flow_control))
        self.app: Any = self.api.app
        """The ASGI application to serve; may be wrapped before `start`."""
        self.mounted_servers: dict[str, str] = {}
        """Path prefixes of further API servers on the same listener, by name."""
        self._listener: Listener | None = None
        self._renewal: asyncio.Task[None] | None = None

    def _load_secrets(self) -> ApiServerSettings:
        """The certificates, the token of the administrator and the key of tokens; created on the first start."""
        self._authority = ensure_authority(self.directory / "pki", self._addresses)
        pki = self._authority.directory
        token = _ensure_secret(pki / "admin.token").decode()
        return ApiServerSettings(
            static_tokens={token: User("trimtab-admin", (MASTERS, AUTHENTICATED))},
            token_key=_ensure_secret(pki / "service-account.key"),
        )

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._bind, self._bind)  # noqa: S104
        port = self._listener.port if self._listener else self._port
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    async def start(self) -> None:
        await self.api.start()
        self._listener = Listener(self.app, self._bind, self._port, self._authority)
        await self._listener.start()
        self._write_kubeconfig()
        self._renewal = asyncio.get_running_loop().create_task(self._renew_regularly())

    def _write_kubeconfig(self) -> None:
        others = {name: self.url + path for name, path in self.mounted_servers.items()}
        try:
            write_kubeconfig(self.kubeconfig, self._authority, {"trimtab": self.url, **others})
        except OSError as error:
            log.warning(
                "%s was not written (%s): it does not have the address %s", self.kubeconfig, error.strerror, self.url
            )

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_CHECK_SECONDS)
            try:
                await self.renew_certificates(datetime.now(UTC))
            except (OSError, InputError) as error:
                log.warning("certificates cannot be renewed; trying again in an hour: %s", error)

    async def renew_certificates(self, now: datetime) -> None:
        """Renew the certificates that are near their end; new connections and the kubeconfig use the new ones."""
        renewed = await asyncio.to_thread(renew_certificates, self._authority, self._addresses, now)
        if renewed and self._listener is not None:
            self._listener.reload_certificates(self._authority)
            self._write_kubeconfig()
            log.info("renewed certificates: %s", ", ".join(renewed))

    async def stop(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        self.api.app.end_streams()
        if self._listener is not None:
            await self._listener.stop()
        await self.api.stop()
