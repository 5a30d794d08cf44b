"""`trimtab rotate-token-key`: sign service account tokens of the embedded API server with a new key."""

from datetime import UTC, datetime
from pathlib import Path

import click

from trimtab.cli.support.options.data_directory import data_dir_option
from trimtab.server.auth.token_keys import KeyRing
from trimtab.server.daemon import KEY_RING


@click.command()
@data_dir_option
def command(data_dir: Path) -> None:
    """Sign new service account tokens with a new key. Tokens of the earlier keys stay valid until they expire.

    A running server uses the new key at once. It makes a new one by itself every 90 days. To invalidate all tokens of a key
    whose secret is known to others, remove its file as well.
    """
    key_id = KeyRing(data_dir / "pki" / KEY_RING).rotate(datetime.now(UTC))
    click.echo(f"New tokens are signed with the key {key_id}.")
