"""`trimtab restore FILE`: make a backup the store of a data directory."""

from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Data directory of the API server, which must not run.",
)
@click.option("--force", is_flag=True, help="Replace the store that is there; it is kept in a directory of its own.")
def command(file: Path, data_dir: Path, force: bool) -> None:
    """Make the backup FILE the store of an API server.

    FILE is checked first. The store continues at a revision above all earlier ones, so watches expire and clients list
    again. Objects keep their uids. Certificates and keys in the data directory stay as they are.
    """
    from trimtab.store.restore import restore_backup  # noqa: PLC0415

    restored = restore_backup(file, data_dir, replace=force)
    report = restored.backup
    click.echo(f"{data_dir}: {report.objects} objects of revision {report.revision}; continues at {restored.revision}")
    if restored.kept is not None:
        click.echo(f"The replaced store is in {restored.kept}")
    if not (data_dir / "pki" / "ca.crt").exists():
        click.echo(
            f"{data_dir / 'pki'} has no certificates: copy the directory from the old server before the start. "
            "Otherwise new ones are made, and all kubeconfigs and service account tokens become invalid."
        )
