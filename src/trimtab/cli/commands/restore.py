"""`trimtab restore FILE`: make a backup the store of a data directory, or write its objects to an API server."""

from functools import partial
from pathlib import Path

import click

from trimtab.api.wording import plural
from trimtab.cli.support.client import with_client
from trimtab.client.kube import KubeClient
from trimtab.client.object_archive import RestoreResult, is_archive, read_archive, restore_archive
from trimtab.errors import InputError
from trimtab.runtime.control_plane_identity import add_former_ids
from trimtab.runtime.observe_only import begin_observing_and_wait, note_restore


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory of the API server of Trimtab, which must not run.",
)
@click.option("--kubeconfig", default="", help="Any other API server, which runs: create the objects there.")
@click.option("--context", default="", help="Context in the kubeconfig.")
@click.option("--force", is_flag=True, help="Replace the store that is there; it is kept in a directory of its own.")
@click.option("--no-observe", is_flag=True, help="Let the controllers run at once, without `trimtab release`.")
def command(
    file: Path, data_dir: Path | None, kubeconfig: str, context: str, force: bool, no_observe: bool
) -> int | None:
    """Make the backup FILE the store of an API server, or create its objects on another one.

    FILE is checked first. The store continues at a revision above all earlier ones, so watches expire and clients list
    again. Objects keep their uids. Certificates and keys in the data directory stay as they are.

    With --kubeconfig FILE is one that `trimtab backup` made of an API server other than Trimtab's. Objects that exist stay as
    they are; exit code 1 if some could not be created.

    The controllers do not run after the next start, until `trimtab release`: `trimtab observe` lists what they would write
    and delete in the members, which may have a newer state.
    """
    if (data_dir is None) == (not kubeconfig):
        raise click.UsageError("give --data-dir (a stopped server of Trimtab) or --kubeconfig (any other API server)")
    if data_dir is None:
        return restore_objects(file, kubeconfig, context, observe=not no_observe)
    from trimtab.store.restore import restore_backup  # noqa: PLC0415

    note = partial(note_restore, data_dir, observe=not no_observe)
    restored = restore_backup(file, data_dir, replace=force, before_replacement=note)
    report = restored.backup
    click.echo(
        f"{data_dir}: {plural(report.objects, 'object')} of revision {report.revision}; continues at {restored.revision}"
    )
    if restored.kept is not None:
        click.echo(f"The replaced store is in {restored.kept}")
    if not (data_dir / "pki" / "ca.crt").exists():
        click.echo(
            f"{data_dir / 'pki'} has no certificates: copy the directory from the old server before the start. "
            "Otherwise new ones are made, and all kubeconfigs and service account tokens become invalid."
        )
    if not no_observe:
        click.echo("After the start: trimtab observe lists what the controllers would do, trimtab release starts them.")
    return None


def restore_objects(file: Path, kubeconfig: str, context: str, *, observe: bool) -> int:
    """Create the objects of an archive; the controllers are stopped first, and wait for `trimtab release`."""
    with file.open("rb") as opened:
        if not is_archive(opened):
            raise InputError(f"{file} is not an archive of objects; a store is restored with --data-dir")
        header, objects = read_archive(opened)

    async def work(client: KubeClient) -> RestoreResult:
        if observe:
            await begin_observing_and_wait(client, f"restored from {file.name}")
        await add_former_ids(client, header.control_planes)
        return await restore_archive(client, objects)

    result = with_client(kubeconfig, context, work)
    click.echo(f"{result.created} objects of {header.taken} created, {result.existing} existed")
    for line in result.failed:
        click.echo(f"not created: {line}", err=True)
    if observe:
        click.echo("trimtab observe lists what the controllers would do, trimtab release starts them.")
    return 1 if result.failed else 0
