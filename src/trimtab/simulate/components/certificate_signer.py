"""Signs approved CertificateSigningRequests of one member, with an authority that only this member trusts."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.errors import ApiError, InputError
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.server.auth.certificates import CertificateAuthority, ensure_signing_authority
from trimtab.server.auth.request_signing import CLIENT_SIGNER, KUBELET_SIGNER, REQUESTS, answered_request, is_to_sign

AUTHORITY_NAME = "trimtab-member-ca"
"""Not the name of the authority of the control plane: a server that trusts both finds each by its name."""
log = logging.getLogger("trimtab.simulate")


class CertificateSigner:
    """The signers of certificates of clients and of kubelets; the authority is made for the first request."""

    def __init__(
        self,
        cache: Cache,
        client: Client,
        directory: Path,
        now: Callable[[], datetime],
        trust: Callable[[Path], None],
    ) -> None:
        """`trust` lets the API server accept clients with certificates of an authority."""
        self._cache, self._client, self._directory, self._now, self._trust = cache, client, directory, now, trust
        self._authority: CertificateAuthority | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        earlier = CertificateAuthority(self._directory).certificate
        try:
            self._trust(earlier)
        except FileNotFoundError:
            pass  # nothing was signed yet
        except OSError as error:
            log.warning("%s cannot be read, clients that it signed are refused: %s", earlier, error)
        table = self._cache.table(REQUESTS)
        await table.synced.wait()
        table.add_listener(self._on_request)
        for entry in table.entries.values():
            self._on_request(None, entry)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _on_request(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is None or new.raw["spec"].get("signerName") not in (CLIENT_SIGNER, KUBELET_SIGNER):
            return
        if is_to_sign(new.raw):
            task = asyncio.get_running_loop().create_task(self._sign(new.raw))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _sign(self, request: Raw) -> None:
        try:
            answered = await answered_request(request, await self._signing_authority(), self._now())
            await self._client.replace(REQUESTS, answered, subresource="status")
        except (ApiError, InputError, OSError, ValueError) as fault:  # its next change starts another attempt
            log.warning("certificate request", extra={"request": request["metadata"]["name"], "error": str(fault)})

    async def _signing_authority(self) -> CertificateAuthority:
        if self._authority is None:
            found = await asyncio.to_thread(ensure_signing_authority, self._directory, AUTHORITY_NAME, self._now())
            if self._authority is None:  # no other request was first
                self._trust(found.certificate)
                self._authority = found
        return self._authority
