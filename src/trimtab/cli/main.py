"""The command line `trimtab`, also `kubectl trimtab`: each module in `commands` is one command."""

import gc
import importlib
import os
import pkgutil
import sys
from typing import Any

import click

from trimtab import __version__
from trimtab.cli import commands
from trimtab.cli.support.terminal_output import escaped_output
from trimtab.errors import ApiError, InputError, StoreError

READER_GONE = 141
"""The exit code of a process that SIGPIPE ends."""
GC_THRESHOLDS = (50_000, 10, 10)
"""Garbage collection thresholds: with the defaults, it took a third of the CPU time of short commands and a quarter of that of a
busy control plane."""


class LazyCommandGroup(click.Group):
    """Imports a command only when it is called, so that `trimtab version` does not load what `trimtab up` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = (module.name for module in pkgutil.iter_modules(commands.__path__))
        return sorted(name.replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = self.list_commands(ctx)
        if cmd_name not in known and ctx.resilient_parsing:
            return None  # the shell completes a word that is not finished
        if cmd_name not in known:
            import difflib  # noqa: PLC0415 - only mistakes need it

            similar = difflib.get_close_matches(cmd_name, known, n=3)
            hint = f" Did you mean: {', '.join(similar)}?" if similar else " `trimtab --help` lists the commands."
            ctx.fail(f"there is no command {cmd_name!r}.{hint}")
        module = importlib.import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
        command: Any = module.command
        return command if isinstance(command, click.Command) else None


@click.command(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trimtab")
def trimtab() -> None:
    """Place and move workloads across Kubernetes clusters, and pods inside each cluster."""


def main() -> None:
    """Run the command; print errors as one message on standard error, without a traceback."""
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        with escaped_output():
            run()
    except BrokenPipeError:  # whoever reads the output has seen enough, such as `head`
        sys.exit(READER_GONE)
    finally:
        discard_unread_output()


def discard_unread_output() -> None:
    """Write what is left; if nobody reads it, nothing is written, also not when the process ends."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> None:
    """Run the command and end the process with its exit code."""
    try:
        outcome = trimtab.main(standalone_mode=False)
        sys.exit(outcome if isinstance(outcome, int) else 0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as mistake:
        mistake.show()
        sys.exit(mistake.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except (InputError, StoreError, ApiError) as fault:
        click.echo(f"trimtab: {fault}", err=True)
        sys.exit(1)
