"""`trimtab join`: add a cluster to the fleet."""

from collections.abc import Sequence

import click
import yaml

from trimtab.cli.support.client import with_client
from trimtab.cli.support.options.cluster_facts import cluster_facts_options
from trimtab.client.client import Client
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import InputError
from trimtab.members.join import ROLES, ClusterFacts, account_objects, check_cluster_name, join, renew_credentials
from trimtab.members.member_rights import MemberRights
from trimtab.runtime.propagatable import DEFAULT, parse_kinds

ONLY_WITH_PROXY = (
    "# Only where the API server of the control plane serves the proxy of clusters, as `trimtab up` does:\n"
)


@click.command()
@click.argument("name")
@click.option("--kubeconfig", "member_config", default="", help="Kubeconfig of the cluster to join.")
@click.option("--context", "member_context", default="", help="Context in that kubeconfig.")
@click.option("--mode", type=click.Choice(["push", "pull"]), default="push", show_default=True)
@click.option("--take-over", is_flag=True, help="Join the cluster although another control plane holds it.")
@click.option(
    "--renew",
    is_flag=True,
    help="Give the control plane a new token in a cluster that is joined already, when the old one has expired or was lost.",
)
@click.option(
    "--kinds",
    default=DEFAULT,
    show_default=True,
    metavar="LIST",
    help="Kinds that may be propagated to the cluster, such as default,widgets.example.com; default: what applications "
    "consist of; *: every kind, subresources included.",
)
@click.option(
    "--allow-rbac",
    is_flag=True,
    help="Let the control plane propagate roles and bindings, whatever they grant. It can then give itself every right.",
)
@click.option(
    "--proxy/--no-proxy",
    "allow_proxy",
    default=True,
    help="Let the control plane act as the users of its cluster proxy, if it serves one.",
)
@click.option(
    "--print", "print_objects", is_flag=True, help="Print the account and its roles in the cluster, and stop."
)
@click.option("--host-kubeconfig", default="", help="Kubeconfig of the control plane; default: $KUBECONFIG.")
@click.option("--host-context", default="")
@cluster_facts_options
def command(
    name: str,
    member_config: str,
    member_context: str,
    mode: str,
    take_over: bool,
    renew: bool,
    kinds: str,
    allow_rbac: bool,
    allow_proxy: bool,
    print_objects: bool,
    host_kubeconfig: str,
    host_context: str,
    facts: ClusterFacts,
) -> None:
    """Join the cluster of a kubeconfig to the fleet as NAME."""
    rights = MemberRights(parse_kinds(kinds), allow_rbac)
    if print_objects:
        check_cluster_name(name)
        click.echo(printed_account(name, rights, allow_proxy=allow_proxy), nl=False)
        return
    if not member_config:
        raise click.UsageError("Missing option '--kubeconfig'.")
    credentials = load(member_config, member_context)

    async def work(host: Client) -> None:
        member = KubeClient(credentials)
        try:
            await check_reachable(member, name)
            if renew:
                await renew_credentials(
                    *(host, member, name, credentials), take_over=take_over, rights=rights, allow_proxy=allow_proxy
                )
                return
            await join(
                *(host, member, name, credentials, facts),
                mode=mode.capitalize(),
                take_over=take_over,
                removed=report_removed,
                rights=rights,
                allow_proxy=allow_proxy,
            )
        finally:
            await member.close()

    with_client(host_kubeconfig, host_context, work)
    if renew:
        click.echo(f"cluster {name} has a new token")
        return
    click.echo(f"cluster {name} joined in {mode} mode")
    if mode == "pull":
        click.echo(f"start the agent in the cluster: trimtab agent {name} --kubeconfig MEMBER --host-kubeconfig HOST")


def report_removed(names: Sequence[str]) -> None:
    for name in names:
        click.echo(f"deleted {name}, which was left in the cluster when it did not answer")


def printed_account(name: str, rights: MemberRights, *, allow_proxy: bool) -> str:
    """What `trimtab join` creates in the cluster, for `kubectl apply -f -`."""
    documents = []
    for resource, obj in account_objects(name, rights, proxies=allow_proxy):
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        comment = ONLY_WITH_PROXY if resource == ROLES and obj["metadata"]["name"].endswith(":proxy") else ""
        documents.append(comment + yaml.safe_dump(body, sort_keys=False))
    return "---\n".join(documents)


async def check_reachable(member: Client, name: str) -> None:
    """Check the member first, so that the error names the API server that does not answer."""
    try:
        await member.fetch("/version")
    except (OSError, TimeoutError) as fault:
        raise InputError(f"cannot reach the cluster {name}: {str(fault) or type(fault).__name__}") from fault
