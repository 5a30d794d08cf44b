"""`trimtab rebalance deploy/web`: schedule workloads again from scratch, and move them replacement first."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.rebalancer import ObservedWorkload, WorkloadRebalancer, WorkloadReference
from trimtab.api.selectors import InvalidSelector, LabelSelectorRequirement, parse_selector
from trimtab.api.value import Raw
from trimtab.cli.commands.explain import find_binding
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.cli.support.server_state import fetch_state
from trimtab.client.client import Client, Resource, resource_of
from trimtab.client.lookups import find_resource, workload_reference
from trimtab.clock import WallClock
from trimtab.controllers.movement.rebalance import TERMINAL_PHASES
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_report import report_lines
from trimtab.dryrun.plan_result import format_shares
from trimtab.errors import InputError
from trimtab.runtime.declarations import load_kinds

POLL_SECONDS = 1.0


@click.command()
@click.argument("workloads", nargs=-1, metavar="[KIND/NAME]...")
@namespace_option()
@click.option("-A", "--all-namespaces", is_flag=True, help="With --selector: select in all namespaces.")
@click.option("-l", "--selector", default="", help="Select workloads by label instead of name, e.g. team=blue.")
@click.option("--kind", "kind_", default="deployment", show_default=True, help="Kind that the selector selects.")
@click.option("--preserve-available", is_flag=True, help="Do not move replicas that are available.")
@click.option("--at-once", is_flag=True, help="Do not wait for the replacement to be ready.")
@click.option(
    "--max-parallel",
    type=int,
    default=10,
    show_default=True,
    help="Maximum number of workloads that move at the same time.",
)
@click.option("--name", default="", help="Name of the WorkloadRebalancer.")
@click.option(
    "--ttl",
    type=int,
    default=86400,
    show_default=True,
    help="Seconds after which the finished WorkloadRebalancer is deleted.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would move; exit codes as for trimtab plan.")
@click.option("--wait", is_flag=True, help="Wait until everything has moved.")
@click.option("--timeout", type=float, default=1200.0, show_default=True, help="Maximum number of seconds to wait.")
@kubeconfig_options
def command(
    workloads: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    selector: str,
    kind_: str,
    preserve_available: bool,
    at_once: bool,
    max_parallel: int,
    name: str,
    ttl: int,
    dry_run: bool,
    wait: bool,
    timeout: float,
    kubeconfig: str,
    context: str,
) -> int:
    """Schedule workloads again from scratch, and move them to the result, replacement first."""
    if bool(workloads) == bool(selector):
        raise InputError("give either workloads, such as deploy/web, or a --selector")
    spec: dict[str, Any] = {"maxParallel": max_parallel, "ttlSecondsAfterFinished": ttl}
    if preserve_available:
        spec["strategy"] = "PreserveAvailable"
    if at_once:
        spec["move"] = {"mode": "AtOnce"}

    async def work(client: Client) -> int:
        load_kinds()
        if selector:
            spec["selectors"] = [await workload_selector(client, kind_, "" if all_namespaces else namespace, selector)]
        else:
            spec["workloads"] = [await workload_reference(client, text, namespace) for text in workloads]
        if dry_run:
            plan = make_plan(await fetch_state(client), Change(rebalance=spec))
            click.echo("\n".join(report_lines(plan)))
            return plan.exit_code
        for text in workloads:
            await find_binding(client, text, namespace)
        job = await create_rebalancer(client, name or f"rebalance-{WallClock().now():%Y%m%d-%H%M%S}", spec)
        click.echo(f"workloadrebalancer/{job} created")
        return await wait_until_finished(client, job, timeout) if wait else 0

    return with_client(kubeconfig, context, work)


async def workload_selector(client: Client, kind: str, namespace: str, selector: str) -> Raw:
    """The selector in the form of a WorkloadRebalancer; an empty namespace selects all namespaces."""
    return selector_of(kind, namespace, selector, await client.resources())


def selector_of(
    kind: str, namespace: str, selector: str, served: Sequence[Resource], *, option: str = "--selector"
) -> Raw:
    """The selector in the form of a WorkloadRebalancer; `option` is named in the error about a wrong one."""
    resource = find_resource(kind, served)
    try:
        rules = parse_selector(selector).rules
    except InvalidSelector as fault:
        hint = "examples: team=blue, 'env in (prod, test)', !legacy"
        raise InputError(f"{option} {selector!r}: {fault}; {hint}") from fault
    rule: Raw = {"apiVersion": resource.api_version, "kind": resource.kind}
    if namespace and resource.namespaced:
        rule["namespace"] = namespace
    return {**rule, "labelSelector": {"matchExpressions": [requirement_to_wire(rule) for rule in rules]}}


def requirement_to_wire(rule: LabelSelectorRequirement) -> Raw:
    values = {"values": list(rule.values)} if rule.values else {}
    return {"key": rule.key, "operator": rule.operator, **values}


async def create_rebalancer(client: Client, name: str, spec: Raw) -> str:
    kind = kind_of(WorkloadRebalancer)
    job = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
    made = await client.create(resource_of(kind), job)
    return str(made["metadata"]["name"])


async def wait_until_finished(client: Client, name: str, seconds: float) -> int:
    """Print every change of phase until all are terminal; 1 when a workload failed or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            return await report_until_finished(client, name)
    except TimeoutError:
        click.echo(f"not finished within {seconds:.0f} seconds; workloadrebalancer/{name} continues")
        return 1


async def report_until_finished(client: Client, name: str) -> int:
    kind = kind_of(WorkloadRebalancer)
    printed: dict[WorkloadReference, str] = {}
    while True:
        job = cast("WorkloadRebalancer", kind.decode(await client.get(resource_of(kind), "", name)))
        items = job.status.observed_workloads
        for item in items:
            line = progress_line(item)
            if printed.get(item.workload) != line:
                printed[item.workload] = line
                click.echo(line)
        if job.status.finish_time is not None and not items:
            click.echo("no propagated workload matches the selector")
            return 1
        if job.status.finish_time is not None and all(
            item.phase in TERMINAL_PHASES or not item.phase for item in items
        ):
            return 1 if any("Failed" in (item.phase, item.result) for item in items) else 0
        await asyncio.sleep(POLL_SECONDS)


def progress_line(item: ObservedWorkload) -> str:
    change = (
        f"{format_shares(item.before)} -> {format_shares(item.after)}"
        if item.before != item.after and item.after
        else ""
    )
    text = " ".join(part for part in (change, item.message) if part)
    name = "/".join(part for part in (item.workload.kind, item.workload.namespace, item.workload.name) if part)
    return f"{item.phase or item.result or 'Pending':<10}{name}  {text}".rstrip()
