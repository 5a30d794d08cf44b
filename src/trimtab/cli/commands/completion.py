"""`trimtab completion bash|zsh|fish`: print the script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

from trimtab.errors import InputError

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a SHELL, for example: source <(trimtab completion bash)"""
    completion = get_completion_class(shell)
    if completion is None:
        raise InputError(f"completion for {shell} is not available")
    click.echo(completion(ctx.find_root().command, {}, "trimtab", "_TRIMTAB_COMPLETE").source())
