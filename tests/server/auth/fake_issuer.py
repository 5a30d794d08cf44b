"""An OpenID Connect issuer in a thread of the test: it signs in whom the test names, and checks the code challenge."""

import asyncio
import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import orjson
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.http.listener import Listener

CLIENT = "trimtab-console"


def base64_text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def number_text(number: int) -> str:
    return base64_text(number.to_bytes((number.bit_length() + 7) // 8))


class FakeIssuer:
    """Signs in the user in `claims`, without a question."""

    def __init__(self, url: str = "https://issuer.example", secret: str = "") -> None:
        self.url = url
        self.secret = secret
        self.claims: dict[str, Any] = {"sub": "ada", "groups": ["shop-readers"]}
        self.lifetime = 300.0
        self.requests: list[str] = []
        self.key_id = ""
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        self.new_key()

    def new_key(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.key_id = secrets.token_hex(4)

    def keys(self) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        jwk = {"kty": "RSA", "use": "sig", "kid": self.key_id, "n": number_text(numbers.n), "e": number_text(numbers.e)}
        return {"keys": [{"kty": "oct", "k": "AA"}, jwk]}

    def token(self, now: float | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A signed ID token; a claim that is None is left out."""
        moment = time.time() if now is None else now
        body = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": moment,
            "exp": moment + self.lifetime,
            **self.claims,
            **claims,
        }
        head = {"alg": "RS256", "kid": self.key_id, **(header or {})}
        parts = (head, {name: value for name, value in body.items() if value is not None})
        text = ".".join(base64_text(orjson.dumps(part)) for part in parts)
        return f"{text}.{base64_text(self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path, body = scope["path"], (await receive()).get("body", b"")
        query = dict(parse_qsl(scope["query_string"].decode()))
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        self.requests.append(path)
        code, answer, location = self.answer(path, query, dict(parse_qsl(body.decode())), headers)
        lines = [(b"content-type", b"application/json")] + ([(b"location", location.encode())] if location else [])
        await send({"type": "http.response.start", "status": code, "headers": lines})
        await send({"type": "http.response.body", "body": orjson.dumps(answer)})

    def answer(
        self, path: str, query: dict[str, str], form: dict[str, str], headers: dict[str, str]
    ) -> tuple[int, Any, str]:
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            addresses = {name: f"{self.url}/{value}" for name, value in names.items()}
            return 200, {"issuer": self.url, **addresses}, ""
        if path == "/keys":
            return 200, self.keys(), ""
        if path == "/authorize":
            code = secrets.token_hex(8)
            self.codes[code] = query
            back = {"code": code, "state": query["state"], "iss": self.url}
            return 303, {}, f"{query['redirect_uri']}?{urlencode(back)}"
        if path == "/token":
            return self.give_tokens(form, headers)
        return 404, {}, ""

    def give_tokens(self, form: dict[str, str], headers: dict[str, str]) -> tuple[int, Any, str]:
        pair = base64.b64encode(f"{CLIENT}:{self.secret}".encode()).decode()
        if self.secret and headers.get("authorization") != f"Basic {pair}":
            return 401, {"error": "invalid_client"}, ""
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens:
                return 400, {"error": "invalid_grant"}, ""
            self.refresh_tokens.discard(form["refresh_token"])
            return 200, self.tokens({}), ""
        asked = self.codes.pop(form["code"], {})
        challenge = base64_text(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked.get("code_challenge") != challenge or asked.get("redirect_uri") != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}, ""
        return 200, self.tokens({"nonce": asked["nonce"]}), ""

    def tokens(self, claims: dict[str, Any]) -> dict[str, str]:
        refresh_token = secrets.token_hex(8)
        self.refresh_tokens.add(refresh_token)
        return {"id_token": self.token(**claims), "refresh_token": refresh_token, "token_type": "Bearer"}


@contextmanager
def running_issuer(directory: Path, secret: str = "") -> Iterator[tuple[FakeIssuer, Path]]:
    """An issuer on loopback, and the file with the certificate that it is verified with."""
    authority = ensure_authority(directory / "issuer", ["127.0.0.1"])
    issuer = FakeIssuer(secret=secret)
    started, loop, stopped = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        listener = Listener(issuer, "127.0.0.1", 0, authority)
        await listener.start()
        issuer.url = f"https://127.0.0.1:{listener.port}"
        started.set()
        await stopped.wait()
        await listener.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    started.wait()
    try:
        yield issuer, authority.certificate
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()
