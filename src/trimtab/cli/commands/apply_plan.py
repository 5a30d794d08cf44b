"""`trimtab apply-plan FILE`: carry out a plan, unless the fleet has changed so that it would do something else."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec

from trimtab.api.profile import PROFILES
from trimtab.api.value import Raw
from trimtab.cli.commands.drain_cluster import start_drain
from trimtab.cli.commands.rebalance import create_rebalancer
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.cluster_taints import update_taints
from trimtab.cli.support.server_state import fetch_state
from trimtab.client.client import Client, Resource
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_result import FORMAT, Plan, differences, digest_of
from trimtab.errors import AlreadyExists, InputError, unreadable
from trimtab.runtime.declarations import load_kinds

FIELD_MANAGER = "trimtab-apply-plan"
REFUSED = 3


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@kubeconfig_options
def command(file: Path, kubeconfig: str, context: str) -> int:
    """Carry out the plan in FILE, which `trimtab plan --out FILE` has written.

    The plan is made again first. If it would do something else now, nothing is written, the difference is printed, and
    the exit code is 3.
    """
    plan = read_plan(file)

    async def work(client: Client) -> int:
        load_kinds()
        state = await fetch_state(client, plan.profile, changed_templates=plan.change.objects)
        again = make_plan(state, plan.change)
        if again.hash != plan.hash:
            click.echo("The fleet has changed since the plan was made; nothing was written:", err=True)
            for line in differences(plan, again) or ["the same workloads, in another state"]:
                click.echo(f"  {line}", err=True)
            click.echo("Make a new plan with: trimtab plan", err=True)
            return REFUSED
        async for line in carry_out(client, plan):
            click.echo(line)
        return 0

    return with_client(kubeconfig, context, work)


def read_plan(path: Path) -> Plan:
    """The plan of a file; raises InputError when it is not one, was edited, or cannot be carried out."""
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except OSError as fault:
        raise unreadable(path, fault) from fault
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise InputError(f"{path} is not a plan that `trimtab plan --out` has written: {fault}") from fault
    if plan.format != FORMAT:
        raise InputError(f"{path} has the format {plan.format!r}; this version reads {FORMAT}")
    if plan.profile not in PROFILES:
        raise InputError(f"{path} has the unknown profile {plan.profile!r}")
    if digest_of(plan) != plan.hash:
        raise InputError(f"{path} was edited: its content does not have the hash {plan.hash[:12]}")
    if plan.change.is_loss:
        raise InputError(
            f"{path} assumes that clusters fail, which cannot be carried out. In a simulated fleet: trimtab fault cluster"
        )
    return plan


async def carry_out(client: Client, plan: Plan, now: datetime | None = None) -> AsyncIterator[str]:
    """Write the change; yields one line per write. `now` is the time in a simulation."""
    change: Change = plan.change
    for raw in change.objects:
        yield await apply_object(client, raw)
    for name in change.drain:
        await start_drain(client, name, now=now)
        yield f"cluster/{name} cordoned; its workloads move out"
    for taint in change.taints:
        await update_taints(client, taint, now)
        yield f"cluster/{taint.cluster} {'untainted' if taint.remove else 'tainted'}"
    if change.rebalance is not None:
        name = await create_rebalancer(client, f"plan-{plan.hash[:12]}", dict(change.rebalance))
        yield f"workloadrebalancer/{name} created"


async def apply_object(client: Client, raw: Raw) -> str:
    """Create the object, or merge it into the one that exists."""
    resource = served_resource(raw["apiVersion"], raw["kind"], await client.resources())
    namespace, name = raw["metadata"].get("namespace", ""), raw["metadata"]["name"]
    try:
        await client.create(resource, raw, manager=FIELD_MANAGER)
    except AlreadyExists:
        before = await client.get(resource, namespace, name)
        after = await client.patch(resource, namespace, name, raw, manager=FIELD_MANAGER)
        is_same = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        return f"{resource.kind.lower()}/{name} {'unchanged' if is_same else 'configured'}"
    return f"{resource.kind.lower()}/{name} created"


def served_resource(api_version: str, kind: str, served: Sequence[Resource]) -> Resource:
    for resource in served:
        if (resource.api_version, resource.kind) == (api_version, kind):
            return resource
    raise InputError(f"the server does not serve {kind} of {api_version}")
