"""`trimtab webhook`: admission of a stock Kubernetes: defaults, checks, evictions and replacements of pods."""

import tempfile
from pathlib import Path

import click

from trimtab.api.admission import webhook_configurations as paths
from trimtab.api.value import Raw
from trimtab.cli.commands.controllers import run_until_signalled
from trimtab.cli.commands.crds import custom_kinds, dump_crd
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.options.namespace import check_namespace
from trimtab.cli.support.options.serving import port_option
from trimtab.cli.support.probes import ProbeEndpoints, health_option, serve_probes
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.runtime.declarations import load_declarations
from trimtab.telemetry import configure_logging
from trimtab.webhook.service import WebhookService, WebhookSettings


@click.command()
@kubeconfig_options
@port_option(9443)
@click.option("--bind", default="", help="Address to serve on; default: all addresses.")
@click.option(
    "--namespace",
    callback=check_namespace,
    default="trimtab-system",
    show_default=True,
    help="Namespace of the Secret and the Service.",
)
@click.option("--service", default=paths.NAME, show_default=True, help="Service through which the API server calls.")
@click.option("--configuration", default=paths.NAME, show_default=True, help="Name of both webhook configurations.")
@click.option(
    "--url", default="", help="URL at which the API server reaches the webhook, instead of the Service; with --print."
)
@click.option("--name", "names", multiple=True, help="Further name or address in the certificate; can be repeated.")
@click.option(
    "--cert-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Read tls.crt and tls.key there, as cert-manager writes them, and make no certificates.",
)
@click.option("--pods/--no-pods", default=True, help="Admit pods and evictions of this cluster.", show_default=True)
@click.option(
    "--budget-target",
    type=click.Choice(["Workloads", "Pods"]),
    default="Workloads",
    show_default=True,
    help="What a DisruptionBudget selects that does not say so.",
)
@click.option("--allow-no-execute-taints", is_flag=True, help="Allow ClusterTaintPolicies that evict workloads.")
@click.option("--print", "prints", is_flag=True, help="Print the webhook configurations and exit.")
@health_option
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", "-v", count=True)
def command(
    kubeconfig: str,
    context: str,
    port: int,
    bind: str,
    namespace: str,
    service: str,
    configuration: str,
    url: str,
    names: tuple[str, ...],
    cert_dir: Path | None,
    pods: bool,
    budget_target: str,
    allow_no_execute_taints: bool,
    prints: bool,
    health_address: str,
    log_format: str,
    verbose: int,
) -> None:
    """Serve the admission webhooks of Trimtab for the API server of a kubeconfig.

    Certificates are made, shared in a Secret and renewed by the replicas themselves, which also write the bundle into both
    webhook configurations. With --cert-dir they are read from files.
    """
    if prints:

        def client_config(path: str) -> Raw:
            if url:
                return {"url": f"{url.rstrip('/')}{path}"}
            return {"service": {"namespace": namespace, "name": service, "path": path, "port": 443}}

        for obj in paths.webhook_configurations(
            custom_kinds(), client_config, namespace=namespace, name=configuration, pods=pods
        ):
            click.echo(f"---\n{dump_crd(obj)}", nl=False)
        return
    configure_logging(verbosity=verbose, as_json=log_format == "json")
    load_declarations()
    settings = WebhookSettings(
        namespace, service, configuration, names, cert_dir, pods, budget_target, allow_no_execute_taints
    )

    async def serve() -> None:
        client = KubeClient(load(kubeconfig or None, context), agent="trimtab-webhook")
        probes = ProbeEndpoints(decides=False)
        try:
            with tempfile.TemporaryDirectory(prefix="trimtab-webhook-") as directory:
                webhook = WebhookService(client, WallClock(), settings, Path(directory))
                probes.observe(webhook)
                async with serve_probes(probes, health_address):
                    await webhook.run(bind, port, lambda bound: click.echo(f"the webhook is ready on port {bound}"))
        finally:
            await client.close()

    run_until_signalled(serve())
