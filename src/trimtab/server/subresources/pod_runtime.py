"""What an API server asks of the kubelets of its cluster: container logs and answers to proxied requests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import BadRequest
from trimtab.server import api_errors
from trimtab.server.admission.dynamic.service_calls import ServerAnswer, ServerRequest
from trimtab.server.request.routes import is_true


class LogLine(NamedTuple):
    at: datetime | None
    """When it was written, if that is known."""
    text: str


class KubeletAnswer(NamedTuple):
    """The answer of a kubelet to a proxied request."""

    code: int
    body: bytes
    media_type: str


class PodRuntime(Protocol):
    """The containers and kubelets of a cluster."""

    def read_log(self, pod: Raw, container: str, *, previous: bool) -> Sequence[LogLine]: ...

    def follow_log(self, pod: Raw, container: str) -> AsyncIterator[Sequence[LogLine]]:
        """What the container writes after this call, until it ends; nothing if it does not run."""

    async def run_command(
        self, pod: Raw, container: str, command: Sequence[str], text: str, write: Callable[[str], None]
    ) -> int:
        """Run a command with this input in a running container; returns its exit code."""

    def send_input(self, pod: Raw, container: str, data: bytes | None) -> None:
        """Pass bytes to the standard input of a container that has one; None closes it."""

    async def connect(
        self, pod: Raw, port: int, receive: Callable[[], Awaitable[bytes | None]], send: Callable[[bytes], None]
    ) -> None:
        """Carry a connection to a port until one side ends it; ConnectionError when nothing listens there."""

    def respond(self, pod: Raw, request: ServerRequest) -> ServerAnswer | None:
        """The answer to an HTTP request; None when nothing listens there."""

    def ask_kubelet(self, node: str, path: str, query: dict[str, str]) -> KubeletAnswer | None:
        """The answer of a kubelet to a GET request; None when it cannot be reached."""


def select_lines(lines: Sequence[LogLine], query: dict[str, str], now: datetime) -> str:
    """The part of a log that a client asks for."""
    since = _oldest(query, now)
    if since is not None:
        lines = [line for line in lines if line.at is None or line.at >= since]
    if count := query.get("tailLines", ""):
        number = _number("tailLines", count)
        lines = lines[-number:] if number else []
    text = _format(lines, query)
    limit = _byte_limit(query)
    return text if limit is None else text.encode()[:limit].decode("utf-8", "ignore")


async def no_lines() -> AsyncIterator[Sequence[LogLine]]:
    """Nothing is written later."""
    for lines in tuple[Sequence[LogLine], ...]():
        yield lines


async def follow_lines(
    first: str, later: AsyncIterator[Sequence[LogLine]], query: dict[str, str]
) -> AsyncIterator[bytes]:
    """The part of a log that exists, then what is written later, up to the number of bytes that a client asks for."""
    chunk, left = first.encode(), _byte_limit(query)
    while True:
        if left is not None:
            chunk = chunk[:left]
            left -= len(chunk)
        if chunk:
            yield chunk
        lines = await anext(later, None) if left != 0 else None
        if lines is None:
            return
        chunk = _format(lines, query).encode()


def _format(lines: Sequence[LogLine], query: dict[str, str]) -> str:
    has_times = is_true(query.get("timestamps", ""))
    return "".join(f"{_stamp(line.at) if has_times else ''}{line.text}\n" for line in lines)


def _byte_limit(query: dict[str, str]) -> int | None:
    limit = query.get("limitBytes", "")
    return _number("limitBytes", limit) if limit else None


def _stamp(at: datetime | None) -> str:
    return "" if at is None else f"{timestamp(at)[:-1]}.{at.microsecond * 1000:09}Z "


def _oldest(query: dict[str, str], now: datetime) -> datetime | None:
    if seconds := query.get("sinceSeconds", ""):
        return now - timedelta(seconds=_number("sinceSeconds", seconds))
    if moment := query.get("sinceTime", ""):
        try:
            return datetime.fromisoformat(moment)
        except ValueError:
            raise BadRequest(f"sinceTime must be a time, not {api_errors.quote_value(moment)}") from None
    return None


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise BadRequest(f"{name} must be a non-negative number, not {api_errors.quote_value(text)}")
    return int(text[:9])
