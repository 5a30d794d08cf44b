"""`trimtab release`: let the controllers run after a restore."""

import asyncio

import click

from trimtab.api.kinds.cluster import Cluster
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.client.lookups import list_typed
from trimtab.controllers.control_plane_identity import ControlPlaneIdentity
from trimtab.errors import ApiError, InputError
from trimtab.members.join import take_over_claim
from trimtab.members.member_client import client_from_secret, stored_secret
from trimtab.runtime.control_plane_identity import draw_identity
from trimtab.runtime.observe_only import end_observing, reason_to_observe

MEMBER_SECONDS = 10.0
"""How long a member may take to answer."""


@click.command()
@kubeconfig_options
@click.option(
    "--take-over",
    "taken",
    multiple=True,
    metavar="ID",
    help="Also take over the objects of this control plane, which no longer exists, as a Work names it; can be repeated.",
)
def command(kubeconfig: str, context: str, taken: tuple[str, ...]) -> None:
    """Let the controllers run on a host that was restored; see `trimtab observe` for what they will write.

    The control plane gets a new id, which its objects in members carry from then on. If the original of a restored copy still
    runs, these are objects of another control plane for it: it does not change them, and its Works say so.
    """
    lines = with_client(kubeconfig, context, lambda host: release(host, taken))
    click.echo("\n".join(lines))


async def release(host: Client, taken: tuple[str, ...]) -> list[str]:
    """Let the controllers of a host that only observes run under a new id; returns what to tell.

    With ids to take over also those of a host whose controllers run: they mark their objects again.
    """
    if not taken and await reason_to_observe(host) is None:
        return ["nothing to release: the controllers may run"]
    identity = await draw_identity(host, taken)
    clusters = await list_typed(host, Cluster, if_served=True)
    lines = filter(None, await asyncio.gather(*(_take_over_claim(host, one, identity) for one in clusters)))
    await end_observing(host)
    return [*lines, f"the controllers start, as control plane {identity.own}"]


async def _take_over_claim(host: Client, cluster: Cluster, identity: ControlPlaneIdentity) -> str:
    """Hold a member under the new id; returns what to tell if that is not possible."""
    secret = await stored_secret(host, cluster)
    member = client_from_secret(cluster, lambda *_: secret)
    if member is None:
        return ""
    try:
        async with asyncio.timeout(MEMBER_SECONDS):
            await take_over_claim(member, cluster.name, identity)
    except InputError as fault:
        return str(fault)
    except (ApiError, OSError, TimeoutError) as fault:
        why = str(fault) or type(fault).__name__
        return f"cluster {cluster.name} does not answer ({why}): it is still recorded under the earlier id"
    finally:
        await member.close()
    return ""
