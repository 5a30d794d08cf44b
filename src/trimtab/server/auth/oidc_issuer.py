"""Talks to an OpenID Connect issuer: its addresses, its keys, and tokens for codes."""

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
import orjson

from trimtab.api.value import Raw
from trimtab.errors import ApiError, InputError
from trimtab.server.auth.id_tokens import IdTokens

log = logging.getLogger("trimtab.oidc")
TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}
SECONDS_BETWEEN_READS = 10.0
"""The keys are read again for an unknown one, but not more often than this."""


class IssuerUnavailable(ApiError):
    """The issuer cannot be reached, or its answer cannot be used."""

    code = 502
    reason = "BadGateway"


class IssuerRefused(ApiError):
    """The issuer gives no tokens."""

    code = 403
    reason = "Forbidden"


class OidcClient(NamedTuple):
    """How this program is known to the issuer."""

    client_id: str
    secret: str = ""
    """Empty for a public client, which PKCE protects alone."""
    scopes: tuple[str, ...] = ("openid", "profile", "email", "groups", "offline_access")
    redirect_url: str = ""
    """Empty: the address at which the browser sees the console."""


class Tokens(NamedTuple):
    """What the issuer gives for a code."""

    id_token: str
    refresh_token: str = ""


class OidcIssuer:
    """One issuer; its addresses are read at the first use, its keys again when a token names an unknown one."""

    def __init__(self, client: OidcClient, id_tokens: IdTokens, ca: bytes = b"") -> None:
        self.client = client
        self.id_tokens = id_tokens
        check_https(id_tokens.claims.issuer, "the issuer")
        self._tls = tls_context(ca)
        self._addresses: Raw | None = None
        self._last_read = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        id_tokens.add_key_reader(self._read_keys_soon)

    def start(self) -> None:
        """Read the keys in the background; sign-ins and tokens are refused until they are there."""
        self._read_keys_soon()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def addresses(self) -> Raw:
        """The document at which the issuer says where everything is."""
        if self._addresses is None:
            issuer = self.id_tokens.claims.issuer
            document = await self._fetch("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
            if document.get("issuer") != issuer:
                raise IssuerUnavailable(f"the issuer calls itself {document.get('issuer')!r}, not {issuer!r}")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                check_https(str(document.get(name, "")), f"{name} of the issuer")
            self._addresses = document
        return self._addresses

    async def read_keys(self) -> None:
        self._last_read = asyncio.get_running_loop().time()
        self.id_tokens.replace_keys(await self._fetch("GET", (await self.addresses())["jwks_uri"]))

    def _read_keys_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        is_busy = self._reading is not None and not self._reading.done()
        if not is_busy and loop.time() - self._last_read >= SECONDS_BETWEEN_READS:
            self._last_read = loop.time()
            self._reading = loop.create_task(self._read_keys_or_log())

    async def _read_keys_or_log(self) -> None:
        try:
            await self.read_keys()
        except (ApiError, InputError) as fault:
            log.warning("the keys of %s were not read: %s", self.id_tokens.claims.issuer, fault)

    async def exchange(self, code: str, verifier: str, redirect_url: str) -> Tokens:
        """The tokens for the code with which the browser came back."""
        return await self._tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect_url,
                "code_verifier": verifier,
            }
        )

    async def refresh(self, refresh_token: str) -> Tokens:
        """New tokens for those that expire."""
        found = await self._tokens({"grant_type": "refresh_token", "refresh_token": refresh_token})
        return found if found.refresh_token else found._replace(refresh_token=refresh_token)

    async def _tokens(self, form: Mapping[str, str]) -> Tokens:
        headers = {}
        fields = {"client_id": self.client.client_id, **form}
        if self.client.secret:
            pair = f"{quote(self.client.client_id, safe='')}:{quote(self.client.secret, safe='')}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        answer = await self._fetch("POST", (await self.addresses())["token_endpoint"], fields, headers)
        id_token = answer.get("id_token")
        if not isinstance(id_token, str) or not id_token:
            raise IssuerUnavailable("the issuer has answered without an ID token")
        return Tokens(id_token, str(answer.get("refresh_token") or ""))

    async def _fetch(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] = {}
    ) -> Raw:
        """The JSON object of an answer; redirects are not followed, and large answers are not read."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=_HEADERS, auto_decompress=False) as session,
                session.request(
                    method, url, data=form, headers=headers, ssl=self._tls, allow_redirects=False
                ) as response,
            ):
                content = await read_answer(response.content.iter_any())
                code = response.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as fault:
            raise IssuerUnavailable(f"{urlsplit(url).netloc} was not reached: {reason_of(fault)}") from None
        return answer_of(code, content, url)


async def read_answer(chunks: AsyncIterable[bytes]) -> bytes:
    """All of an answer, however many pieces it arrives in; of one that is too large a part that is too large as well."""
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            break
    return bytes(content)


def reason_of(fault: Exception) -> str:
    """Why there was no answer; the texts of aiohttp name objects of this process."""
    if isinstance(fault, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(fault, aiohttp.ClientConnectorError):
        return fault.os_error.strerror or str(fault.os_error)
    return "it did not answer in time" if isinstance(fault, TimeoutError) else str(fault) or type(fault).__name__


def answer_of(code: int, content: bytes, url: str) -> Raw:
    """The object in an answer; the code that an issuer gives for a refusal is repeated, its other text is not."""
    try:
        answer: Raw | None = orjson.loads(content) if len(content) <= MAX_ANSWER_BYTES else None
    except ValueError:
        answer = None
    if code in (400, 401, 403) and isinstance(answer, dict) and isinstance(answer.get("error"), str):
        raise IssuerRefused(f"the issuer refuses: {answer['error'][:100]}")
    if code != 200 or not isinstance(answer, dict):
        raise IssuerUnavailable(f"{urlsplit(url).netloc} has answered with status {code} and no usable document")
    return answer


def check_https(url: str, what: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.netloc:
        raise InputError(f"{what} must be an https address, not {url!r}")


def tls_context(ca: bytes) -> ssl.SSLContext:
    """Trusts the given authorities, or those of the system."""
    try:
        return ssl.create_default_context(cadata=ca.decode() if ca else None)
    except (ssl.SSLError, ValueError) as fault:
        raise InputError("the certificates of --oidc-ca-file cannot be read as PEM") from fault
