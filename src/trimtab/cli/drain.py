"""`trimtab drain NODE`: empties a node at the pace that budgets allow."""

import click

from trimtab.cli.shared import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.runtime.drain import Drain, Options, Step


@click.command()
@click.argument("node")
@click.option("--force", is_flag=True, help="Also evict pods that nothing would replace.")
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets where they are.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also evict pods that lose an emptyDir by it.")
@click.option("--grace-period", type=int, default=None, help="Seconds that pods get to end; else what they say.")
@click.option("--timeout", type=float, default=None, help="Seconds after which to give up; else never.")
@click.option("--disable-eviction", is_flag=True, help="Delete instead of evicting: no budget is asked.")
@click.option("--parallel", type=int, default=50, show_default=True, help="How many pods may be leaving at once.")
@click.option("--no-surge", is_flag=True, help="Never start a replacement first, also where it is allowed.")
@kubeconfig_options
def command(
    node: str,
    force: bool,
    ignore_daemonsets: bool,
    delete_emptydir_data: bool,
    grace_period: int | None,
    timeout: float | None,
    disable_eviction: bool,
    parallel: int,
    no_surge: bool,
    kubeconfig: str,
    context: str,
) -> int:
    """Close NODE and evict its pods; says what blocks and until when."""
    options = Options(
        force=force,
        ignore_daemonsets=ignore_daemonsets,
        delete_emptydir_data=delete_emptydir_data,
        grace=grace_period,
        timeout=timeout,
        disable_eviction=disable_eviction,
        parallel=parallel,
        surge=not no_surge,
    )

    async def work(client: Client) -> list[Step]:
        return await Drain(client, node, clock=WallClock(), options=options, report=tell).run()

    left = [step for step in with_client(kubeconfig, context, work) if step.state == "Failed"]
    click.echo(f"node/{node} " + (f"not drained: {len(left)} pods are left" if left else "drained"))
    return 1 if left else 0


def tell(step: Step) -> None:
    until = f" until {step.until:%H:%M:%S}" if step.until is not None else ""
    said = f": {step.message}" if step.message else ""
    click.echo(f"{step.state.lower() + until:<22} {step.pod}{said}")
