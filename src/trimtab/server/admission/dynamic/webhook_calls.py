"""The HTTP request to a webhook: one POST over TLS whose answer is read to its end, within a limit."""

import base64
import ssl
import zlib
from collections.abc import AsyncIterable
from functools import lru_cache

from trimtab.api.value import Raw

MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""The longest answer that is read, also after decompression."""
_GZIP_WINDOW_BITS = 31


class CallFailed(Exception):
    """The webhook could not be called, or its answer is not valid; the text says why."""


def tls_context(client_config: Raw) -> ssl.SSLContext:
    """The context that verifies the webhook with its `caBundle`, or with the certificates of the system."""
    return _context_for(client_config.get("caBundle") or "")


@lru_cache(maxsize=32)  # reading the certificates of the system takes 30 ms of CPU
def _context_for(bundle: str) -> ssl.SSLContext:
    try:
        text = base64.b64decode(bundle).decode() if bundle else None
        return ssl.create_default_context(cadata=text)
    except (ValueError, ssl.SSLError) as error:
        raise CallFailed(f"unable to load root certificates: {error}") from None


async def post_review(url: str, body: bytes, context: ssl.SSLContext) -> bytes:
    """The body of the answer; the caller limits the time.

    Redirects are not followed: they would send the object to a server that nobody configured.
    """
    import aiohttp  # noqa: PLC0415 - most servers never call a webhook

    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "gzip"}
    session = aiohttp.ClientSession(
        auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
    )
    try:
        async with (
            session,
            session.post(url, data=body, ssl=context, headers=headers, allow_redirects=False) as response,
        ):
            if not 200 <= response.status <= 206:
                raise CallFailed(f"failed to call webhook: the server responded with status {response.status}")
            content = await _read_to_end(response.content.iter_any())
            return _decompress(content, response.headers.get("Content-Encoding", ""))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise CallFailed(f'failed to call webhook: Post "{url}": {_describe(error)}') from None


def _describe(error: Exception) -> str:
    """The failure in the words of the system; the text of a failed connection would show the TLS context as an object."""
    import aiohttp  # noqa: PLC0415 - as above

    cause = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    text = cause.strerror if isinstance(cause, OSError) else ""
    return text or str(cause) or type(cause).__name__


async def _read_to_end(chunks: AsyncIterable[bytes]) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise _too_long()
        parts.append(chunk)
    return b"".join(parts)


def _decompress(content: bytes, encoding: str) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        return content
    if encoding != "gzip":
        raise CallFailed("received invalid webhook response: its Content-Encoding is neither gzip nor identity")
    stream = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        decompressed = stream.decompress(content, MAX_ANSWER_BYTES)
    except zlib.error as error:
        raise CallFailed(f"received invalid webhook response: it is not valid gzip: {error}") from None
    if stream.unconsumed_tail:
        raise _too_long()
    if not stream.eof:
        raise CallFailed("received invalid webhook response: its gzip stream is incomplete")
    return decompressed


def _too_long() -> CallFailed:
    return CallFailed(f"received invalid webhook response: it is longer than {MAX_ANSWER_BYTES} bytes")
