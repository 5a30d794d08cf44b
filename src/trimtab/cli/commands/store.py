"""`trimtab store check`: whether the store of a stopped server, or a backup, is complete and readable."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.api.wording import plural
from trimtab.errors import StoreError

if TYPE_CHECKING:
    from trimtab.store.inspection import StoreReport


@click.group()
def command() -> None:
    """Look after the store of an API server."""


@command.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Data directory of a server."
)
@click.option(
    "--accept-loss", is_flag=True, help="Let a server start whose store lost acknowledged writes, without these writes."
)
def check(file: Path | None, data_dir: Path | None, accept_loss: bool) -> None:
    """Check a backup FILE, or the store of a stopped server with `--data-dir`.

    It reads every page, checksum, revision and object, and compares the newest revision with the marker of the data
    directory. Nothing is changed, except with `--accept-loss`. The exit code is 1 if something is wrong. To check the
    data of a running server, take a backup and check that.
    """
    if (file is None) == (data_dir is None):
        raise click.UsageError("give either a backup FILE or --data-dir")
    if data_dir is None:
        if accept_loss:
            raise click.UsageError("--accept-loss needs --data-dir")
        _print_report(_report_on(file, None))
        return
    if accept_loss:
        _accept_loss(data_dir)
    _print_report(_report_on(None, data_dir))


def _report_on(file: Path | None, data_dir: Path | None) -> "StoreReport":
    from trimtab.store.inspection import inspect_directory, inspect_store  # noqa: PLC0415

    return inspect_store(file) if file is not None else inspect_directory(data_dir or Path())


def _accept_loss(data_dir: Path) -> None:
    from trimtab.runtime.observe_only import note_restore  # noqa: PLC0415
    from trimtab.store.restore import accept_loss, is_complete  # noqa: PLC0415

    if is_complete(data_dir):
        click.echo(f"{data_dir} lost nothing; nothing was changed")
    else:
        note_restore(data_dir, observe=True)  # the members may have what is lost here
        click.echo(
            f"{data_dir}: the missing writes are given up; the store continues at revision {accept_loss(data_dir)}\n"
            "After the start: trimtab observe lists what the controllers would do, trimtab release starts them."
        )


def _print_report(report: "StoreReport") -> None:
    click.echo(f"{report.path}: format {report.format}, revision {report.revision}, {plural(report.objects, 'object')}")
    for problem in report.problems:
        click.echo(f"  {problem}")
    if report.problems:
        raise StoreError(f"{report.path} is not in order")
    click.echo("ok")
