"""Sign-in at an OpenID Connect issuer: the authorization code flow with PKCE.

The browser is sent to the issuer with a random state, nonce and code challenge, and comes back with a code, which only
the holder of the verifier can exchange for an ID token. A cookie of ten minutes binds all of this to the browser that
began, so that nobody can sign another browser in as himself. The ID token is then the bearer token of the session: the
API server verifies it again at every request, and its groups are those that RBAC binds.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from trimtab.errors import Forbidden
from trimtab.server.auth.id_tokens import InvalidIdToken, decode, is_number
from trimtab.server.auth.oidc_issuer import OidcIssuer, Tokens

COOKIE = "__Host-trimtab-login"
LIFETIME = timedelta(minutes=10)
MAX_PENDING = 1000
RENEW_BEFORE = timedelta(minutes=1)
CALLBACK = "/console/login/callback"
TOO_OLD = "This sign-in is too old, or another browser has begun it. Sign in again."


class Pending(NamedTuple):
    """A sign-in that has begun."""

    until: datetime
    browser: str
    nonce: str
    verifier: str
    redirect_url: str
    target: str


class Begun(NamedTuple):
    """Where the browser is sent, and the cookie that binds it to this sign-in."""

    location: str
    cookie: str


class CodeFlow:
    """The sign-ins at one issuer that have begun."""

    def __init__(self, issuer: OidcIssuer, now: Callable[[], datetime]) -> None:
        self.issuer = issuer
        self._now = now
        self._pending: dict[str, Pending] = {}

    @property
    def name(self) -> str:
        """How the sign-in page names the issuer."""
        return urlsplit(self.issuer.id_tokens.claims.issuer).netloc

    async def begin(self, host: str, target: str) -> Begun:
        """Begin a sign-in; `target` is where it ends."""
        addresses = await self.issuer.addresses()
        state, nonce, verifier, browser = (secrets.token_urlsafe(32) for _ in range(4))
        client = self.issuer.client
        redirect_url = client.redirect_url or f"https://{host}{CALLBACK}"
        self._drop_old()
        self._pending[_digest(state)] = Pending(
            self._now() + LIFETIME, _digest(browser), nonce, verifier, redirect_url, target
        )
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_url,
            "scope": " ".join(client.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        endpoint = addresses["authorization_endpoint"]
        return Begun(f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}", browser)

    async def finish(self, query: Mapping[str, str], cookie: str) -> tuple[Tokens, str]:
        """The tokens for the code of the issuer, and where the sign-in ends; every attempt is used up."""
        pending = self._pending.pop(_digest(query.get("state", "")), None)
        if pending is None or self._now() >= pending.until or not hmac.compare_digest(pending.browser, _digest(cookie)):
            raise Forbidden(TOO_OLD)
        if query.get("iss", self.issuer.id_tokens.claims.issuer) != self.issuer.id_tokens.claims.issuer:
            raise Forbidden("The answer comes from another issuer.")
        if "error" in query or not query.get("code"):
            raise Forbidden(f"The issuer has not signed you in: {query.get('error', 'it gave no code')[:100]}.")
        tokens = await self.issuer.exchange(query["code"], pending.verifier, pending.redirect_url)
        await self.check(tokens, pending.nonce)
        return tokens, pending.target

    async def check(self, tokens: Tokens, nonce: str | None = None) -> None:
        """Verify an ID token; keys that the issuer has made since are read first."""
        try:
            self.issuer.id_tokens.verify(tokens.id_token, nonce)
        except InvalidIdToken:
            await self.issuer.read_keys()
            try:
                self.issuer.id_tokens.verify(tokens.id_token, nonce)
            except InvalidIdToken as fault:
                raise Forbidden(f"The ID token of the issuer is not accepted: {fault}.") from None

    async def renew(self, refresh_token: str) -> Tokens:
        """Tokens for those that end soon."""
        tokens = await self.issuer.refresh(refresh_token)
        await self.check(tokens)
        return tokens

    def _drop_old(self) -> None:
        now = self._now()
        for state, pending in list(self._pending.items()):
            if now >= pending.until or len(self._pending) >= MAX_PENDING:
                del self._pending[state]


def ends_soon(token: str, now: datetime) -> bool:
    """Whether an ID token expires within a minute."""
    try:
        expires = decode(token)[1].get("exp")
    except InvalidIdToken:
        return False
    return is_number(expires) and float(expires or 0) <= (now + RENEW_BEFORE).timestamp()


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
