"""The options of commands that send traces to an OpenTelemetry collector."""

from collections.abc import Callable
from typing import Any

import click

from trimtab.client.otlp import TraceTarget, traces_url


def trace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--trace-ratio",
        type=click.FloatRange(0.0, 1.0),
        default=1.0,
        show_default=True,
        help="Share of the traces that is sent; all spans of a workload are sent or none.",
    )(command)
    return click.option(
        "--trace-endpoint",
        default="",
        metavar="URL",
        help="Send a span for every reconcile to this OpenTelemetry collector (OTLP over HTTP, JSON).",
    )(command)


def trace_target(endpoint: str, ratio: float) -> TraceTarget | None:
    """Where the options send spans; None without an address."""
    return TraceTarget(traces_url(endpoint), ratio) if endpoint else None
