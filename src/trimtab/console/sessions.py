"""Sessions of browsers: one-time login links, cookies, CSRF tokens.

A session belongs to a random id that only the cookie of the browser has. The server keeps a hash of it. Sessions are
written to a file, so that a restart does not sign anybody out; the bearer token in it is encrypted with a key that is
derived from the id, so that the file alone gives nobody access.
"""

import base64
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimtab.store.files import replace_file

COOKIE = "__Host-trimtab"
LIFETIME = timedelta(hours=8)
IDLE = timedelta(minutes=30)
LINK_LIFETIME = timedelta(hours=24)
MAX_SESSIONS = 1000
MAX_LINKS = 16
_SAVE_AGAIN = timedelta(minutes=1)


class Session(msgspec.Struct):
    """One signed-in browser."""

    user: str
    token: str
    """The bearer token of the user; empty: the credentials of this process."""
    created: datetime
    used: datetime
    csrf: str
    digest: str
    refresh_token: str = ""
    """What an issuer of OpenID Connect gives new tokens for; empty: the session ends with its token."""
    is_bearer: bool = False
    """Whether the request itself has the token: no cookie, so no form of another site can have sent it."""


class _StoredSession(msgspec.Struct):
    """A session in the file."""

    digest: str
    user: str
    sealed_token: str
    created: datetime
    used: datetime


def _digest(session_id: str) -> str:
    return hashlib.sha256(b"session" + session_id.encode()).hexdigest()


def _key(session_id: str, use: bytes) -> bytes:
    return hmac.new(session_id.encode(), use, hashlib.sha256).digest()


def _seal(session_id: str, token: str, refresh_token: str) -> str:
    nonce = secrets.token_bytes(12)
    sealed = AESGCM(_key(session_id, b"token")).encrypt(nonce, f"{token}\n{refresh_token}".encode(), None)
    return base64.b64encode(nonce + sealed).decode()


def _unseal(session_id: str, sealed: str) -> tuple[str, str]:
    """The bearer token and the refresh token."""
    content = base64.b64decode(sealed)
    text = AESGCM(_key(session_id, b"token")).decrypt(content[:12], content[12:], None).decode()
    token, _, refresh_token = text.partition("\n")
    return token, refresh_token


class Sessions:
    """All sessions of one console."""

    def __init__(self, now: Callable[[], datetime], file: Path | None = None) -> None:
        self._now = now
        self._file = file
        self._sessions: dict[str, Session] = {}
        self._stored: dict[str, _StoredSession] = {}
        self._links: dict[str, tuple[datetime, str, str]] = {}
        self._last_saved = now()
        if file is not None and file.exists():
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                stored = msgspec.json.decode(file.read_bytes(), type=list[_StoredSession])
                self._stored = {one.digest: one for one in stored}

    def new_link(self, user: str, token: str) -> str:
        """The code of a link that signs in as this user, once."""
        code = secrets.token_urlsafe(24)
        while len(self._links) >= MAX_LINKS:
            del self._links[next(iter(self._links))]
        self._links[_digest(code)] = (self._now() + LINK_LIFETIME, user, token)
        return code

    def follow_link(self, code: str) -> str | None:
        """Use a link: the id of a new session, or None for a link that is unknown, used or too old."""
        until, user, token = self._links.pop(_digest(code), (None, "", ""))
        return self.open(user, token) if until is not None and self._now() < until else None

    def of_bearer(self, user: str, token: str) -> Session:
        """The session of one request that has a bearer token instead of a cookie; it is not kept."""
        now = self._now()
        return Session(user, token, now, now, "", _digest(f"bearer {token}"), is_bearer=True)

    def open(self, user: str, token: str, refresh_token: str = "") -> str:
        """A new session; returns the id for the cookie."""
        self._drop_ended()
        while len(self._sessions) >= MAX_SESSIONS:
            self.close(min(self._sessions.values(), key=lambda session: session.used))
        session_id, now = secrets.token_urlsafe(32), self._now()
        session = Session(user, token, now, now, _key(session_id, b"csrf").hex(), _digest(session_id), refresh_token)
        self._sessions[session.digest] = session
        sealed = _seal(session_id, token, refresh_token)
        self._stored[session.digest] = _StoredSession(session.digest, user, sealed, now, now)
        self._save()
        return session_id

    def renew(self, session_id: str, session: Session, token: str, refresh_token: str) -> None:
        """Give a session the tokens that follow its old ones."""
        session.token, session.refresh_token = token, refresh_token
        if session.digest in self._stored:
            self._stored[session.digest].sealed_token = _seal(session_id, token, refresh_token)
            self._save()

    def find(self, session_id: str) -> Session | None:
        """The session of a cookie, if it has not ended; counts as use."""
        digest = _digest(session_id)
        session = self._sessions.get(digest) or self._restore(session_id, digest)
        if session is None or not self.is_open(session):
            return None
        session.used = self._stored[digest].used = self._now()
        if session.used - self._last_saved > _SAVE_AGAIN:
            self._save()
        return session

    def is_open(self, session: Session) -> bool:
        now = self._now()
        return session.digest in self._stored and now < session.created + LIFETIME and now < session.used + IDLE

    def close(self, session: Session) -> None:
        self._sessions.pop(session.digest, None)
        self._stored.pop(session.digest, None)
        self._save()

    def _restore(self, session_id: str, digest: str) -> Session | None:
        """The session that a previous process has stored."""
        stored = self._stored.get(digest)
        if stored is None:
            return None
        try:
            token, refresh_token = _unseal(session_id, stored.sealed_token)
        except (InvalidTag, ValueError):
            return None
        csrf = _key(session_id, b"csrf").hex()
        session = Session(stored.user, token, stored.created, stored.used, csrf, digest, refresh_token)
        self._sessions[digest] = session
        return session

    def _drop_ended(self) -> None:
        now = self._now()
        for digest, stored in list(self._stored.items()):
            if now >= stored.created + LIFETIME or now >= stored.used + IDLE:
                self._sessions.pop(digest, None)
                del self._stored[digest]

    def _save(self) -> None:
        """Store the sessions; without room on the disk they end with the process."""
        self._last_saved = self._now()
        if self._file is not None:
            with contextlib.suppress(OSError):
                replace_file(self._file, msgspec.json.encode(list(self._stored.values())), mode=0o600)


def is_csrf_token(session: Session, token: str) -> bool:
    return hmac.compare_digest(session.csrf.encode(), token.encode())
