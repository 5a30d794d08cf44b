"""`trimtab drain NODE`: evict the pods of a node within their budgets."""

from collections.abc import Sequence

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.rescheduling.drain import DrainOptions, DrainStep, NodeDrain


@click.command()
@click.argument("node")
@click.option("--force", is_flag=True, help="Also evict pods without a controller.")
@click.option("--ignore-daemonsets", is_flag=True, help="Ignore pods of DaemonSets.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also evict pods with emptyDir volumes, whose data is lost.")
@click.option(
    "--grace-period",
    type=click.IntRange(min=-1),
    default=-1,
    help="Seconds for pods to terminate; -1 uses the grace period of each pod.",
)
@click.option("--timeout", type=click.FloatRange(min=0), default=0, help="Seconds after which to stop; 0 means never.")
@click.option("--disable-eviction", is_flag=True, help="Delete pods instead of evicting them, which ignores budgets.")
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Maximum number of pods that terminate at the same time.",
)
@click.option("--no-surge", is_flag=True, help="Never start a replacement before the eviction.")
@click.option("--dry-run", is_flag=True, help="Only show which pods can be evicted now, and what blocks the others.")
@kubeconfig_options
def command(
    node: str,
    force: bool,
    ignore_daemonsets: bool,
    delete_emptydir_data: bool,
    grace_period: int,
    timeout: float,
    disable_eviction: bool,
    parallel: int,
    no_surge: bool,
    dry_run: bool,
    kubeconfig: str,
    context: str,
) -> int:
    """Cordon NODE and evict its pods. Shows what blocks an eviction and until when."""
    options = DrainOptions(
        force=force,
        ignore_daemonsets=ignore_daemonsets,
        delete_emptydir_data=delete_emptydir_data,
        grace=None if grace_period < 0 else grace_period,
        timeout=timeout or None,
        disable_eviction=disable_eviction,
        parallel=parallel,
        surge=not no_surge,
        dry_run=dry_run,
    )

    async def work(client: Client) -> list[DrainStep]:
        return await NodeDrain(client, node, clock=WallClock(), options=options, report=print_step).run()

    steps = with_client(kubeconfig, context, work)
    left = [step for step in steps if step.state in ("Failed", "Blocked")]
    click.echo(f"node/{node} {summary_text(left, dry_run=dry_run)}")
    return 1 if left else 0


def summary_text(remaining: Sequence[DrainStep], *, dry_run: bool) -> str:
    """The last line of the output."""
    if not remaining:
        return "could be drained now" if dry_run else "drained"
    names = ", ".join(step.pod for step in remaining[:5]) + (", ..." if len(remaining) > 5 else "")
    which = f"{len(remaining)} {'pod' if len(remaining) == 1 else 'pods'}"
    return f"cannot be drained now because of {which} ({names})" if dry_run else f"not drained: {which} left ({names})"


def print_step(step: DrainStep) -> None:
    until = f" until {step.until:%H:%M:%S}" if step.until is not None else ""
    message = f": {step.message}" if step.message else ""
    click.echo(f"{step.state.lower() + until:<22} {step.pod}{message}")
