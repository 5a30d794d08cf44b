"""What an API server asks of the kubelets of its cluster: container logs and answers to proxied requests."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import BadRequest
from trimtab.server import api_errors
from trimtab.server.admission.service_calls import ServerAnswer
from trimtab.server.request.routes import is_true


class LogLine(NamedTuple):
    at: datetime | None
    """When it was written, if that is known."""
    text: str


class PodRuntime(Protocol):
    """The containers of a cluster."""

    def read_log(self, pod: Raw, container: str, *, previous: bool) -> Sequence[LogLine]: ...

    async def run_command(
        self, pod: Raw, container: str, command: Sequence[str], text: str, write: Callable[[str], None]
    ) -> int:
        """Run a command with this input in a running container; returns its exit code."""

    def respond(self, pod: Raw, port: str, path: str, body: bytes = b"") -> ServerAnswer | None:
        """The answer to an HTTP request; None when nothing listens there."""


def select_lines(lines: Sequence[LogLine], query: dict[str, str], now: datetime) -> str:
    """The part of a log that a client asks for."""
    since = _oldest(query, now)
    if since is not None:
        lines = [line for line in lines if line.at is None or line.at >= since]
    if count := query.get("tailLines", ""):
        number = _number("tailLines", count)
        lines = lines[-number:] if number else []
    if is_true(query.get("timestamps", "")):
        shown = [f"{_stamp(line.at)}{line.text}\n" for line in lines]
    else:
        shown = [f"{line.text}\n" for line in lines]
    text = "".join(shown)
    if limit := query.get("limitBytes", ""):
        return text.encode()[: _number("limitBytes", limit)].decode("utf-8", "ignore")
    return text


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
