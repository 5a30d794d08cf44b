"""The options of commands that send notifications to a webhook."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from trimtab.client.webhook import WebhookTarget, check_url
from trimtab.errors import InputError, unreadable


def notification_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--notify-secret-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with the key that signs the events (HMAC with SHA-256).",
    )(command)
    return click.option(
        "--notify-url",
        default="",
        metavar="URL",
        help="Send moves, blocked moves and failovers to this https address as CloudEvents.",
    )(command)


def webhook_target(url: str, secret_file: Path | None) -> WebhookTarget | None:
    """The webhook that the options describe; None without an address."""
    if not url:
        if secret_file is not None:
            raise click.UsageError("--notify-secret-file needs --notify-url")
        return None
    try:
        secret = secret_file.read_bytes().strip() if secret_file is not None else b""
    except OSError as fault:
        raise unreadable(secret_file, fault) from fault
    if secret_file is not None and not secret:
        raise InputError(f"{secret_file} is empty")
    return WebhookTarget(check_url(url), secret)
