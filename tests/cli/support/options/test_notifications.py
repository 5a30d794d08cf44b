"""The webhook that the options of a command describe."""

from pathlib import Path

import click
import pytest

from trimtab.cli.support.options.notifications import webhook_target
from trimtab.client.webhook import WebhookTarget
from trimtab.errors import InputError

URL = "https://hooks.example/moves"


def test_address_with_and_without_a_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key\n")
    assert webhook_target("", None) is None
    assert webhook_target(URL, None) == WebhookTarget(URL)
    assert webhook_target(URL, secret) == WebhookTarget(URL, b"key")


def test_secret_without_an_address_or_without_content_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    with pytest.raises(click.UsageError, match="needs --notify-url"):
        webhook_target("", empty)
    with pytest.raises(InputError, match="is empty"):
        webhook_target(URL, empty)
    with pytest.raises(InputError, match="cannot read"):
        webhook_target(URL, tmp_path / "absent")
    with pytest.raises(InputError):
        webhook_target("http://hooks.example/moves", None)
