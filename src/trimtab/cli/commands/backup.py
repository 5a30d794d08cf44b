"""`trimtab backup FILE`: a backup of a running API server."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.kube import KubeClient
from trimtab.errors import InputError, NotFound, StorageFailed

if TYPE_CHECKING:
    from trimtab.store.backup import BackupHeader


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@kubeconfig_options
def command(file: Path, kubeconfig: str, context: str) -> None:
    """Write all objects of a running Trimtab API server to FILE.

    The server goes on meanwhile; the backup is its state at one moment. It needs all rights, because Secrets are in it.
    FILE is readable only by its owner, and an existing FILE is replaced when the backup is complete. Certificates and
    keys are not in it: keep a copy of the directory `pki` of the data directory.
    """
    header = with_client(kubeconfig, context, partial(write_backup, file=file))
    click.echo(f"{file}: {header.objects} objects at revision {header.revision}")


async def write_backup(client: KubeClient, file: Path) -> "BackupHeader":
    """Download a backup and replace `file` with it when it is complete."""
    from trimtab.store.backup import BackupReader, StoreFile  # noqa: PLC0415
    from trimtab.store.files import replacement_of  # noqa: PLC0415

    reader = BackupReader()
    try:
        with replacement_of(file) as new, StoreFile(new) as store:
            async for chunk in client.download("/backup"):
                store.add(reader.feed(chunk))
            header = reader.finish()
            store.set_revision(header.revision)
    except NotFound:
        raise InputError("the API server has no backups: it is not Trimtab's own; back up its etcd") from None
    except StorageFailed as error:
        raise InputError(f"{file} could not be written: {error.__cause__ or error}") from error
    except OSError as error:
        if error.filename is None:
            raise  # the connection
        raise InputError(f"{file} could not be written: {error.strerror}") from error
    return header
