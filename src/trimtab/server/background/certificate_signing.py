"""Signs approved requests for client certificates with the authority of the server, as kube-controller-manager does."""

import logging
from collections.abc import Callable
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.client.following import follow
from trimtab.errors import ApiError, InputError
from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.auth.request_signing import CLIENT_SIGNER, REQUESTS, answered_request, is_to_sign

log = logging.getLogger("trimtab.server")


class CertificateSigning:
    """The signer kubernetes.io/kube-apiserver-client. Who may approve requests is decided by RBAC."""

    def __init__(self, client: Client, authority: CertificateAuthority, now: Callable[[], datetime]) -> None:
        self._client, self._authority, self._now = client, authority, now

    async def run(self) -> None:
        await follow(self._client, REQUESTS, self.handle_request, log)

    async def handle_request(self, request: Raw) -> None:
        if request["spec"].get("signerName") != CLIENT_SIGNER or not is_to_sign(request):
            return
        try:
            answered = await answered_request(request, self._authority, self._now())
            await self._client.replace(REQUESTS, answered, subresource="status")
        except (ApiError, InputError, OSError, ValueError) as fault:  # its next change starts another attempt
            log.warning("certificate request", extra={"request": request["metadata"]["name"], "error": str(fault)})
