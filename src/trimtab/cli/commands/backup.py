"""`trimtab backup FILE`: a backup of a control plane, on the API server of Trimtab or on any other."""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.api.wording import plural
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.kube import KubeClient
from trimtab.client.object_archive import ArchiveHeader, write_archive
from trimtab.clock import WallClock
from trimtab.errors import ApiError, InputError, NotFound, StorageFailed
from trimtab.runtime.control_plane_identity import read_identity
from trimtab.runtime.leader_election import LEASES, micro_time
from trimtab.runtime.observers.fleet_metrics import BACKUP_LEASE

if TYPE_CHECKING:
    from trimtab.store.backup import BackupHeader


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@kubeconfig_options
def command(file: Path, kubeconfig: str, context: str) -> None:
    """Write the objects of a control plane to FILE.

    The server goes on meanwhile. FILE is readable only by its owner, because Secrets are in it, and an existing FILE is
    replaced when the backup is complete.

    Of Trimtab's own API server all objects are saved, as they are at one moment; this needs all rights. Certificates and keys
    are not in it: keep a copy of the directory `pki` of the data directory. Of any other API server the objects of the fleet
    are saved, with the workloads and the credentials of members; a snapshot of its etcd keeps uids as well.
    """
    click.echo(with_client(kubeconfig, context, partial(back_up, file=file)))


async def back_up(client: KubeClient, file: Path) -> str:
    """Write a backup of either kind; returns what was written."""
    try:
        header = await write_backup(client, file)
        written = f"{file}: {plural(header.objects, 'object')} at revision {header.revision}"
    except NotFound:
        archived = await save_objects(client, file)
        written = f"{file}: {plural(archived.objects, 'object')}; restore them with trimtab restore --kubeconfig"
    await record_time(client)
    return written


async def record_time(client: KubeClient) -> None:
    """Let the controllers report when the last backup was made; the backup is complete also if this fails."""
    namespace, name = BACKUP_LEASE
    lease = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"holderIdentity": "trimtab-backup", "renewTime": micro_time(WallClock().now())},
    }
    try:
        await client.patch(LEASES, namespace, name, lease, type="apply", manager="trimtab-backup", force=True)
    except ApiError as fault:
        click.echo(f"the time of this backup was not recorded, so no alert tells its age: {fault.message}", err=True)


async def save_objects(client: KubeClient, file: Path) -> ArchiveHeader:
    """Write an archive of the objects of an API server that is not Trimtab's own."""
    from trimtab.store.files import replace_file  # noqa: PLC0415

    buffer = BytesIO()
    identity = await read_identity(client)
    header = await write_archive(client, buffer, WallClock().now(), (identity.own, *sorted(identity.former)))
    try:
        replace_file(file, buffer.getvalue())
    except OSError as error:
        raise InputError(f"{file} could not be written: {error.strerror}") from error
    return header


async def write_backup(client: KubeClient, file: Path) -> "BackupHeader":
    """Download a backup and replace `file` with it when it is complete; `NotFound` if the server has no backups."""
    from trimtab.store.backup import BackupReader, StoreFile  # noqa: PLC0415
    from trimtab.store.files import replacement_of  # noqa: PLC0415

    reader = BackupReader()
    try:
        with replacement_of(file) as new, StoreFile(new) as store:
            async for chunk in client.download("/backup"):
                store.add(reader.feed(chunk))
            header = reader.finish()
            store.set_revision(header.revision)
    except StorageFailed as error:
        raise InputError(f"{file} could not be written: {error.__cause__ or error}") from error
    except OSError as error:
        if error.filename is None:
            raise  # the connection
        raise InputError(f"{file} could not be written: {error.strerror}") from error
    return header
