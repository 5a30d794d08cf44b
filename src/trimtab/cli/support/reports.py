"""Prints reports of reading commands: once or whenever they change (`--watch`), with colour on a terminal only."""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import click

from trimtab.cli.support.client import with_client
from trimtab.client.client import Client

POLL_SECONDS = 2.0
CLEAR = "\x1b[2J\x1b[H"
_COLOURS = {
    "red": ("Refused", "Failed", "FAILED", "False", "Stalled", "Reverted", "not possible", "problem", "lost"),
    "yellow": ("Blocked", "in progress", "in steps", "when approved", "after others", "warning", "Unknown", "Warning"),
    "green": ("True", "Done", "selected", "ok", "Create"),
}
_WORDS = re.compile(
    r"(?<![\w./-])("
    + "|".join(sorted((w for words in _COLOURS.values() for w in words), key=len, reverse=True))
    + r")(?![\w./:-])"
)
_COLOUR_OF = {word: colour for colour, words in _COLOURS.items() for word in words}


def watch_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("-w", "--watch", is_flag=True, help="Print again whenever something changes; Ctrl-C ends.")(
        command
    )


def uses_colour() -> bool:
    """Whether standard output is a terminal whose user has not switched colours off (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def with_coloured_states(text: str) -> str:
    """The text with the words for good and bad states in colour; their meaning does not depend on it."""
    return _WORDS.sub(lambda found: click.style(found[0], fg=_COLOUR_OF[found[0]]), text)


def echo_report(text: str) -> None:
    click.echo(with_coloured_states(text) if uses_colour() else text)


def print_report(
    kubeconfig: str, context: str, render: Callable[[Client], Awaitable[str]], *, watch: bool = False
) -> None:
    """Print what `render` returns; with `watch` again whenever it differs, on a terminal in place of the last one."""

    async def work(client: Client) -> None:
        shown = None
        while True:
            text = await render(client)
            if text != shown:
                if watch and sys.stdout.isatty():
                    click.echo(CLEAR, nl=False)
                elif shown is not None:
                    click.echo("")
                if text:
                    echo_report(text)
                shown = text
            if not watch:
                return
            await asyncio.sleep(POLL_SECONDS)

    with_client(kubeconfig, context, work)
