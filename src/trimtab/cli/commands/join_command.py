"""`trimtab join-command`: what to run in a cluster that joins in pull mode."""

import base64

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.cluster_facts import cluster_facts_options
from trimtab.client.client import Client
from trimtab.client.kubeconfig import load
from trimtab.members.agent_access import BOOTSTRAP_SECONDS, prepare_agent
from trimtab.members.join import ClusterFacts


@click.command()
@click.argument("name")
@kubeconfig_options
@click.option(
    "--server", default="", help="URL at which the cluster reaches the control plane; default: as in the kubeconfig."
)
@click.option("--seconds", default=BOOTSTRAP_SECONDS, show_default=True, help="How long the printed token is valid.")
@click.option(
    "--tokens",
    is_flag=True,
    help="Let the agent authenticate with tokens: for control planes whose API server signs no client certificates.",
)
@click.option("--helm", is_flag=True, help="Print the command that installs the chart of the agent.")
@cluster_facts_options
def command(
    name: str,
    kubeconfig: str,
    context: str,
    server: str,
    seconds: int,
    tokens: bool,
    helm: bool,
    facts: ClusterFacts,
) -> None:
    """Register the cluster NAME in pull mode, and print the command that starts its agent there.

    The command contains a token with which the agent requests a client certificate; the controllers approve it. The agent
    renews the certificate by itself, and may write only what concerns its cluster. Run this again for a new token.
    """
    credentials = load(kubeconfig or None, context)
    printed: list[str] = []

    async def work(host: Client) -> None:
        printed.append(await prepare_agent(host, name, facts, seconds, tokens=tokens))

    with_client(kubeconfig, context, work)
    address, authority = server or credentials.server, base64.b64encode(credentials.ca).decode()
    click.echo(f"Run this in the cluster {name} within {seconds // 60} minutes:\n", err=True)
    if helm:
        click.echo(
            f"helm install trimtab-agent charts/trimtab-agent -n trimtab-system --create-namespace --set clusterName={name}"
            f" --set host.server={address} --set host.ca={authority} --set host.bootstrapToken={printed[0]}"
        )
    else:
        click.echo(f"trimtab agent {name} --host-server {address} --host-ca {authority} --bootstrap-token {printed[0]}")
