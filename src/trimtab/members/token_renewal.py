"""Renews the tokens with which the control plane writes to its Push clusters.

A token is renewed when a third of its lifetime has passed, with the rights that the old one has. The new token replaces the old
one in the Secret on the host; clients of the member read it from there with the next request, so no connection is interrupted.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.client.service_account_tokens import TokenClaims, read_claims
from trimtab.clock import Clock
from trimtab.errors import ApiError
from trimtab.members.join import SECRETS, request_token

CHECK_SECONDS = 3600.0
RENEWED_PART = 3
"""A token is renewed when one part in this many of its lifetime has passed."""
log = logging.getLogger("trimtab.members")


class TokenRenewal:
    """Looks at all tokens now and then, and renews those that are due."""

    def __init__(
        self,
        host: Client,
        clock: Clock,
        clusters: Callable[[], Iterable[Cluster]],
        find_secret: Callable[[str, str], Raw | None],
        find_client: Callable[[str], Client | None],
    ) -> None:
        self._host = host
        self._clock = clock
        self._clusters = clusters
        self._find_secret = find_secret
        self._find_client = find_client

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.renew_due_tokens()

    async def renew_due_tokens(self) -> None:
        for cluster in list(self._clusters()):
            try:
                await self._renew_if_due(cluster)
            except (ApiError, OSError, TimeoutError) as fault:
                log.warning("cannot renew the token of cluster %s: %s", cluster.name, fault)

    async def _renew_if_due(self, cluster: Cluster) -> None:
        ref = cluster.spec.secret_ref
        secret = self._find_secret(ref.namespace, ref.name) if ref is not None else None
        member = self._find_client(cluster.name)
        if ref is None or secret is None or member is None:
            return
        claims = read_claims(stored_token(secret))
        if claims is None or not self._is_due(claims):
            return
        seconds = int((claims.expires - claims.issued).total_seconds())
        token = await request_token(member, claims.namespace, claims.account, seconds)
        # The resourceVersion keeps a token that somebody else stored meanwhile.
        patch = {
            "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
            "data": {"token": base64.b64encode(token.encode()).decode()},
        }
        await self._host.patch(SECRETS, ref.namespace, ref.name, patch, manager="trimtab-token-renewal")
        log.info("renewed the token of cluster %s", cluster.name)

    def _is_due(self, claims: TokenClaims) -> bool:
        return self._clock.now() - claims.issued >= (claims.expires - claims.issued) / RENEWED_PART


def stored_token(secret: Raw) -> str:
    """The token in the Secret of a cluster; empty if there is none."""
    return base64.b64decode((secret.get("data") or {}).get("token", "")).decode(errors="replace")
