"""A request and its answer, as the server's rooms hand them around, before and after HTTP."""

from collections.abc import AsyncIterator

import msgspec

from trimtab.server.auth.user import Caller, User
from trimtab.server.http.negotiation import JSON


class Ask(msgspec.Struct):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    groups: list[str] = []
    """Every `Impersonate-Group` header."""
    body: bytes = b""
    protobuf: bool = False
    """Whether a refusal should be told in protobuf."""
    certificate_user: User | None = None
    server_address: str = ""
    caller: Caller = msgspec.field(default_factory=Caller)


class Answer(msgspec.Struct):
    """A whole answer; JSON bodies are still compact and without a line end."""

    code: int
    body: bytes
    media: str = JSON
    headers: list[tuple[bytes, bytes]] = []
    verbatim: bool = False
    """The body is sent as it is, whatever the client's taste."""


class Stream(msgspec.Struct):
    """An answer that goes on."""

    lines: AsyncIterator[bytes]
    media: str = JSON
    headers: list[tuple[bytes, bytes]] = []
