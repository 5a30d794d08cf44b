"""The token controller: fills Secrets of type `kubernetes.io/service-account-token` with a token of their account."""

import asyncio
import base64
from collections.abc import Callable
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import ApiError
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.server.auth.authenticate import ISSUER, ServiceAccountTokens, TokenClaims

SECRETS = Resource("", "v1", "secrets", "Secret")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a type, not a secret
NAME_ANNOTATION = "kubernetes.io/service-account.name"
UID_ANNOTATION = "kubernetes.io/service-account.uid"

IssueToken = Callable[[str, Raw, Raw], str]
"""(namespace, metadata of the account, metadata of the secret) -> token"""

TOKEN_SECONDS = 10 * 365 * 86400
"""Such tokens have no end in Kubernetes; these have one, far away."""


def issuer_of_legacy_tokens(tokens: ServiceAccountTokens, now: Callable[[], datetime]) -> IssueToken:
    def issue(namespace: str, account: Raw, secret: Raw) -> str:
        issued = int(now().timestamp())
        bound = {"kind": "Secret", "name": secret["name"], "uid": secret["uid"]}
        expires = issued + TOKEN_SECONDS
        return tokens.issue(TokenClaims(namespace, account["name"], account["uid"], (ISSUER,), issued, expires, bound))

    return issue


class LegacyTokens:
    """Fills token Secrets, and deletes those of deleted accounts."""

    def __init__(self, cache: Cache, client: Client, issue: IssueToken, certificate: str) -> None:
        self._cache, self._client, self._issue, self._certificate = cache, client, issue, certificate
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        secrets, accounts = self._cache.table(SECRETS), self._cache.table(ACCOUNTS)
        await secrets.synced.wait()
        await accounts.synced.wait()
        secrets.add_listener(self._on_secret)
        accounts.add_listener(self._on_account)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _run(self, entry: CacheEntry) -> None:
        task = asyncio.get_running_loop().create_task(self._sync(entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_secret(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is not None and new.raw.get("type") == TOKEN_TYPE and not (new.raw.get("data") or {}).get("token"):
            self._run(new)

    def _on_account(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        changed = new or old
        if changed is None or (old is not None and new is not None):
            return
        for entry in list(self._cache.table(SECRETS).entries.values()):
            annotations = entry.raw["metadata"].get("annotations") or {}
            is_token = entry.raw.get("type") == TOKEN_TYPE and entry.name[0] == changed.name[0]
            if is_token and annotations.get(NAME_ANNOTATION) == changed.name[1]:
                self._run(entry)

    async def _sync(self, entry: CacheEntry) -> None:
        namespace, name = entry.name
        metadata = entry.raw["metadata"]
        account_name = (metadata.get("annotations") or {}).get(NAME_ANNOTATION) or ""
        account = self._cache.table(ACCOUNTS).entries.get((namespace, account_name))
        try:
            if account is None:
                if (entry.raw.get("data") or {}).get("token"):
                    await self._client.delete(SECRETS, namespace, name)
                return
            if (entry.raw.get("data") or {}).get("token"):
                return
            token = self._issue(namespace, account.raw["metadata"], metadata)
            data = {"token": token, "namespace": namespace, "ca.crt": self._certificate}
            body = {
                "metadata": {"annotations": {UID_ANNOTATION: account.raw["metadata"]["uid"]}},
                "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
            }
            await self._client.patch(SECRETS, namespace, name, body, manager="kube-controller-manager")
        except ApiError:
            return  # the Secret changed meanwhile; its next event starts another attempt
