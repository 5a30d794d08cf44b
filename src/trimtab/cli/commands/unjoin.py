"""`trimtab unjoin`: remove a cluster from the fleet, after its workloads have moved to other clusters."""

import asyncio
from datetime import timedelta
from typing import NamedTuple, cast

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_work import ManifestWork
from trimtab.api.kinds.work import Work
from trimtab.api.value import Condition, Raw
from trimtab.cli.commands.drain_cluster import (
    INTERRUPTED,
    DrainMarks,
    bindings_in,
    changed_lines,
    drain_annotation,
    is_cordoned,
    start_drain,
    update_marks,
    workload_name,
)
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.clusters import get_cluster
from trimtab.cli.support.server_state import options_of_server
from trimtab.client.client import Client, resource_of
from trimtab.client.lookups import list_typed
from trimtab.clock import Clock, WallClock
from trimtab.controllers.clusters.departure import DRAINED, is_terminating
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.movement.cluster_departure import BLOCKED, is_unbound
from trimtab.controllers.well_known import CLUSTER_FINALIZER, DRAIN, FORCE_LEAVE, execution_namespace
from trimtab.decide.gate import time_in_refusal
from trimtab.errors import ApiError, InputError, NotFound
from trimtab.members.agent_access import delete_agent_access
from trimtab.members.join import delete_credentials, release_member, unjoin
from trimtab.members.member_client import client_from_secret, stored_secret
from trimtab.runtime.observe_only import check_released

POLL_SECONDS = 0.5
ACKNOWLEDGE_SECONDS = 30.0
"""How long a control plane may take to report the state of a drain."""
PATIENCE_SECONDS = 20.0
"""How long a drain may be blocked, with nothing in motion, before the command gives up."""


@click.command()
@click.argument("name")
@kubeconfig_options
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the cluster is removed.")
@click.option("--timeout", default=3600.0, show_default=True, help="Maximum number of seconds to wait.")
@click.option("--force", is_flag=True, help="Delete what is in the cluster at once, after a list of what is lost.")
@click.option("--yes", is_flag=True, help="With --force: do not ask.")
def command(name: str, kubeconfig: str, context: str, wait: bool, timeout: float, force: bool, yes: bool) -> int:
    """Remove the cluster NAME from the fleet: first move its workloads, then delete its Works and credentials.

    The workloads move within their budgets, replacement first. If one cannot leave, the command says what blocks it
    and until when, and undoes its drain: the cluster stays joined. Workloads that have moved stay where they are.

    With --no-wait the Cluster is deleted: it leaves when it is empty, and that cannot be undone.
    """
    return with_client(
        kubeconfig, context, lambda host: remove(host, name, UnjoinOptions(timeout, wait=wait, force=force, yes=yes))
    )


class UnjoinOptions(NamedTuple):
    timeout: float
    wait: bool = True
    force: bool = False
    yes: bool = False


async def remove(host: Client, name: str, options: UnjoinOptions) -> int:
    """Remove the cluster; returns the exit code."""
    await check_released(host, f"cluster {name} cannot be removed")
    try:
        cluster = await read_cluster(host, name)
    except NotFound as fault:
        raise InputError(f"there is no cluster {name}; list the clusters with: trimtab fleet") from fault
    if options.force:
        if not await confirm_loss(host, name, ask=not options.yes):
            click.echo(f"nothing is deleted in cluster {name}")
            return 1
        await host.patch(resource_of(kind_of(Cluster)), "", name, {"metadata": {"annotations": {FORCE_LEAVE: "true"}}})
    elif options.wait and needs_drain(cluster) and (await options_of_server(host)).profile != "upstream":
        code = await drain(host, name, options.timeout)
        if code:
            return code
    secret = await stored_secret(host, cluster)  # before the removal of the cluster deletes it
    if CLUSTER_FINALIZER in cluster.metadata.finalizers and not is_ready(await read_cluster(host, name)):
        click.echo(
            f"cluster {name} does not answer: copies in it stay there, and are deleted when it joins this fleet again",
            err=True,
        )
    await unjoin(host, name)
    if options.wait:
        await wait_until_removed(host, name, options.timeout)
        await delete_credentials(host, name)
        await delete_agent_access(host, name)
        await release(host, cluster, secret)
    click.echo(f"cluster {name} {'removed' if options.wait else 'is being removed'}")
    return 0


async def release(host: Client, cluster: Cluster, secret: Raw | None) -> None:
    """End the access to the member, so that another control plane may join it."""
    member = client_from_secret(cluster, lambda *_: secret)
    if member is None:
        return
    try:
        await release_member(host, member, cluster.name)
    except (ApiError, OSError, TimeoutError) as fault:
        click.echo(
            f"the member could not be told that it is free ({fault}); another control plane joins it with --take-over",
            err=True,
        )
    finally:
        await member.close()


def needs_drain(cluster: Cluster) -> bool:
    """Not if the Cluster is being deleted already, or no control plane has ever taken it up: then it has no Works."""
    return not is_terminating(cluster) and CLUSTER_FINALIZER in cluster.metadata.finalizers


async def read_cluster(host: Client, name: str) -> Cluster:
    kind = kind_of(Cluster)
    return cast("Cluster", kind.decode(await host.get(resource_of(kind), "", name)))


async def drain(host: Client, name: str, seconds: float) -> int:
    """Drain the cluster; if it cannot be emptied, restore its marks from before and return 1."""
    raw = await get_cluster(host, name)
    before = DrainMarks(drain_annotation(raw), cordoned=is_cordoned(raw))
    await start_drain(host, name, to_leave=True)
    click.echo(f"cluster/{name} cordoned")
    try:
        obstacle = await obstacle_to_empty(host, name, seconds)
    except (asyncio.CancelledError, Exception) as end:
        await update_marks(host, name, lambda _: before)
        if not isinstance(end, asyncio.CancelledError):
            raise
        click.echo(f"cluster {name} stays joined")
        return INTERRUPTED
    if not obstacle:
        click.echo(f"cluster/{name} drained")
        return 0
    await update_marks(host, name, lambda _: before)
    state = "stays cordoned, as before" if before.cordoned else "is uncordoned"
    click.echo(
        f"cluster {name} is not removed: {obstacle}\n"
        f"It stays joined and {state}; workloads that have moved stay where they are.\n"
        f"Try again later, or give up what is in it: trimtab unjoin {name} --force",
        err=True,
    )
    return 1


async def obstacle_to_empty(host: Client, name: str, seconds: float, clock: Clock | None = None) -> str:
    """Print the progress until the cluster is empty; returns what blocks it, or an empty text."""
    clock, loop = clock or WallClock(), asyncio.get_running_loop()
    end, blocked_since = loop.time() + seconds, None
    acknowledge_by = loop.time() + ACKNOWLEDGE_SECONDS
    printed: dict[str, str] = {}
    while True:
        cluster = await read_cluster(host, name)
        condition = find_condition(cluster.status.conditions, DRAINED)
        if DRAIN not in cluster.metadata.annotations:
            return "its drain was aborted"
        for line in changed_lines(printed, await bindings_in(host, name), name):
            click.echo(line)
        if condition is None and loop.time() >= acknowledge_by:
            return (
                "no control plane has begun to drain it: none runs, or one in profile upstream, which deletes the "
                "workloads of a cluster at once"
            )
        if condition is not None and condition.status == "True":
            return ""
        blocked = condition is not None and condition.reason == BLOCKED
        blocked_since = (blocked_since or loop.time()) if blocked else None
        if loop.time() >= end:
            return f"it is not empty after {seconds:g} s; {condition.message if condition is not None else ''}".strip()
        left = timedelta(seconds=end - loop.time())
        if blocked_since is not None and loop.time() - blocked_since >= PATIENCE_SECONDS:
            assert condition is not None
            if not ends_in_time(condition, clock, left):
                return condition.message
        await asyncio.sleep(POLL_SECONDS)


def ends_in_time(condition: Condition, clock: Clock, left: timedelta) -> bool:
    """Whether time alone ends what blocks the drain, and soon enough."""
    until = time_in_refusal(condition.message)
    return until is not None and until <= clock.now() + left


async def confirm_loss(host: Client, name: str, *, ask: bool) -> bool:
    lines = await lost_with(host, name)
    for line in lines:
        click.echo(line)
    if not lines:
        click.echo(f"Nothing is in cluster {name}.")
    return not ask or click.confirm(f"Delete this in {name} and remove the cluster?")


async def lost_with(host: Client, name: str) -> list[str]:
    """A line for everything that is deleted with the cluster."""
    lines = []
    for binding in await bindings_in(host, name):
        shares = {target.name: target.replicas for target in binding.spec.clusters}
        rest = sorted(set(shares) - {name})
        count = f"{shares[name]} of {sum(shares.values())} replicas" if shares.get(name) else "its copy"
        where = f"it stays in {', '.join(rest)}" if rest else "this is the only cluster that has it"
        lines.append(f"{workload_name(binding)} loses {count} in {name}; {where}")
    manifestworks = await list_typed(host, ManifestWork, name, if_served=True)
    works = await list_typed(host, Work, execution_namespace(name), if_served=True)
    lines += [f"manifestwork/{one.name} is deleted" for one in manifestworks]
    return lines + [f"work/{one.name} is deleted" for one in works if is_unbound(one)]


async def wait_until_removed(host: Client, name: str, seconds: float) -> None:
    reported = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                cluster = await read_cluster(host, name)
                condition = find_condition(cluster.status.conditions, DRAINED)
                forced = FORCE_LEAVE in cluster.metadata.annotations
                blocked = condition is not None and condition.reason == BLOCKED and not forced
                if condition is not None and blocked and condition.message != reported:
                    reported = condition.message
                    click.echo(f"cluster/{name} is being deleted and waits: {reported}")
                await asyncio.sleep(POLL_SECONDS)
    except NotFound:
        return
    except TimeoutError as late:
        why = f": {reported}" if reported else ""
        raise InputError(f"cluster {name} is not removed within {seconds:g} s{why}; the removal continues") from late
