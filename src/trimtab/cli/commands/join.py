"""`trimtab join`: add a cluster to the fleet."""

from collections.abc import Sequence

import click
import yaml

from trimtab.cli.support.client import with_client
from trimtab.client.client import Client
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import InputError
from trimtab.members.join import ClusterFacts, join, member_role, proxy_role


@click.command()
@click.argument("name")
@click.option("--kubeconfig", "member_config", default="", help="Kubeconfig of the cluster to join.")
@click.option("--context", "member_context", default="", help="Context in that kubeconfig.")
@click.option("--mode", type=click.Choice(["push", "pull"]), default="push", show_default=True)
@click.option("--take-over", is_flag=True, help="Join the cluster although another control plane holds it.")
@click.option("--print", "print_role", is_flag=True, help="Print the roles that are created in the cluster, and stop.")
@click.option("--host-kubeconfig", default="", help="Kubeconfig of the control plane; default: $KUBECONFIG.")
@click.option("--host-context", default="")
@click.option("--provider", default="")
@click.option("--region", default="")
@click.option("--zone", "zones", multiple=True, help="Zone of the cluster; can be repeated.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the cluster; can be repeated.")
def command(
    name: str,
    member_config: str,
    member_context: str,
    mode: str,
    take_over: bool,
    print_role: bool,
    host_kubeconfig: str,
    host_context: str,
    provider: str,
    region: str,
    zones: tuple[str, ...],
    labels: tuple[str, ...],
) -> None:
    """Join the cluster of a kubeconfig to the fleet as NAME."""
    if print_role:
        click.echo(yaml.safe_dump(member_role(name), sort_keys=False), nl=False)
        click.echo(
            "---\n# Only where the API server of the control plane serves the proxy of clusters, as `trimtab up` does:"
        )
        click.echo(yaml.safe_dump(proxy_role(name), sort_keys=False), nl=False)
        return
    if not member_config:
        raise click.UsageError("Missing option '--kubeconfig'.")
    credentials = load(member_config, member_context)
    facts = ClusterFacts(provider=provider, region=region, zones=zones, labels=dict(map(parse_label, labels)))

    async def work(host: Client) -> None:
        member = KubeClient(credentials)
        try:
            await check_reachable(member, name)
            await join(
                *(host, member, name, credentials, facts),
                mode=mode.capitalize(),
                take_over=take_over,
                removed=report_removed,
            )
        finally:
            await member.close()

    with_client(host_kubeconfig, host_context, work)
    click.echo(f"cluster {name} joined in {mode} mode")
    if mode == "pull":
        click.echo(f"start the agent in the cluster: trimtab agent {name} --kubeconfig MEMBER --host-kubeconfig HOST")


def report_removed(names: Sequence[str]) -> None:
    for name in names:
        click.echo(f"deleted {name}, which was left in the cluster when it did not answer")


def parse_label(label: str) -> tuple[str, str]:
    key, equals, value = label.partition("=")
    if not equals or not key:
        raise InputError(f"--label: expected KEY=VALUE, got {label!r}")
    return key, value


async def check_reachable(member: Client, name: str) -> None:
    """Check the member first, so that the error names the API server that does not answer."""
    try:
        await member.fetch("/version")
    except (OSError, TimeoutError) as fault:
        raise InputError(f"cannot reach the cluster {name}: {str(fault) or type(fault).__name__}") from fault
