"""An API server with its data directory: certificates, store, TLS listener and kubeconfig."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trimtab.server.admission.chain import AdmissionPlugin
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import ensure_authority, write_secret
from trimtab.server.auth.kubeconfig import write_kubeconfig
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.flowcontrol.controller import FlowLimits
from trimtab.server.http.listener import Listener
from trimtab.store.store import Store


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
        self.directory.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = self.directory / "kubeconfig"
        self._bind = bind
        self._port = port
        store = Store.open(self.directory)
        self._authority = ensure_authority(self.directory / "pki", [] if bind in {"0.0.0.0", "::"} else [bind])  # noqa: S104 - compared, not bound
        pki = self._authority.directory
        token = _ensure_secret(pki / "admin.token").decode()
        settings = ApiServerSettings(
            static_tokens={token: User("trimtab-admin", (MASTERS, AUTHENTICATED))},
            token_key=_ensure_secret(pki / "service-account.key"),
            plugins=plugins,
            flow_control=flow_control,
        )
        self.api = ApiServer(store, settings)
        self.app: Any = self.api.app
        """The ASGI application to serve; may be wrapped before `start`."""
        self.mounted_servers: dict[str, str] = {}
        """Path prefixes of further API servers on the same listener, by name."""
        self._listener: Listener | None = None

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._bind, self._bind)  # noqa: S104
        port = self._listener.port if self._listener else self._port
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    async def start(self) -> None:
        await self.api.start()
        self._listener = Listener(self.app, self._bind, self._port, self._authority)
        await self._listener.start()
        others = {name: self.url + path for name, path in self.mounted_servers.items()}
        write_kubeconfig(self.kubeconfig, self._authority, {"trimtab": self.url, **others})

    async def stop(self) -> None:
        self.api.app.end_streams()
        if self._listener is not None:
            await self._listener.stop()
        await self.api.stop()
