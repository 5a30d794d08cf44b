"""The options that limit the requests of all callers of an API server."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trimtab.server.flowcontrol.controller import FlowLimits

F = TypeVar("F", bound=Callable[..., Any])
_READS = ("--max-requests-inflight", 40, "Requests that run at a time, besides those of the next option.")
_WRITES = (
    "--max-mutating-requests-inflight",
    20,
    "Requests that may run besides, for writes; both are shared as seats.",
)
"""Names, defaults (those of `FlowLimits`; the help of the commands does not load the server) and texts."""


def flow_control_options(command: F) -> F:
    """Add the options of flow control to a command."""
    for name, default, text in (_WRITES, _READS):  # the last one is shown first
        limit = click.IntRange(1, 100_000)
        command = click.option(name, type=limit, default=default, show_default=True, help=text)(command)
    return command


def flow_limits(max_requests_inflight: int, max_mutating_requests_inflight: int) -> "FlowLimits":
    from trimtab.server.flowcontrol.controller import FlowLimits  # noqa: PLC0415

    return FlowLimits(max_requests_inflight, max_mutating_requests_inflight)
