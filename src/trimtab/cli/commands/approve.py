"""`trimtab approve`: list the moves that wait for an approval, and approve them."""

import click

from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.cli.commands.explain import find_binding
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.cli.support.output import format_objects, output_option
from trimtab.client.approvals import approve_move
from trimtab.client.client import Client
from trimtab.client.lookups import list_typed
from trimtab.dryrun.plan_result import format_shares
from trimtab.tables import format_table

NOTHING_WAITS = "No move waits for an approval"
HEADINGS = ("NAMESPACE", "WORKLOAD", "CAUSE", "NOW", "THEN", "SINCE")


@click.command()
@click.argument("targets", nargs=-1, metavar="[KIND/NAME]...")
@namespace_option()
@click.option("--all-namespaces", "-A", is_flag=True, help="List, or with --all approve, in all namespaces.")
@click.option("--all", "everything", is_flag=True, help="Approve all waiting moves of the namespace.")
@output_option
@kubeconfig_options
def command(
    targets: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    everything: bool,
    output: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Approve the moves of workloads that wait for it. Without arguments list them.

    A budget, the DisruptionPolicy or a propagation policy with `approval: Required` lets voluntary moves wait. An approval
    releases exactly the listed move; if the decision changes, the new move waits again.
    """
    if targets and everything:
        raise click.UsageError("give workloads or --all, not both")

    async def list_waiting(client: Client) -> list[Binding]:
        found: list[Binding] = [*await list_typed(client, ResourceBinding, "" if all_namespaces else namespace)]
        if all_namespaces:
            found += await list_typed(client, ClusterResourceBinding)
        return [binding for binding in found if binding.status.pending_approval is not None]

    async def work(client: Client) -> list[str]:
        place = "." if all_namespaces else f" in namespace {namespace}; -A shows all namespaces."
        if not targets and not everything:
            nothing = [] if output == "name" else [f"{NOTHING_WAITS}{place}"]
            return waiting_lines(await list_waiting(client), output) or nothing
        if everything:
            bindings = await list_waiting(client)
            if not bindings:
                return [f"{NOTHING_WAITS}{place}"]
        else:
            bindings = [await find_binding(client, target, namespace) for target in targets]
        return [f"{workload_of(binding)}: {await approve_move(client, binding)} approved" for binding in bindings]

    for line in with_client(kubeconfig, context, work):
        click.echo(line)


def waiting_lines(bindings: list[Binding], output: str) -> list[str]:
    if output not in ("table", "wide"):
        return [text] if (text := format_objects(bindings, output)) else []
    return [format_table(HEADINGS, [waiting_row(binding) for binding in bindings])] if bindings else []


def waiting_row(binding: Binding) -> tuple[str, ...]:
    pending = binding.status.pending_approval
    if pending is None:
        return ()
    since = f"{pending.since:%Y-%m-%d %H:%M:%SZ}" if pending.since is not None else "-"
    return (
        binding.namespace or "-",
        workload_of(binding),
        pending.cause,
        format_shares(binding.spec.clusters),
        format_shares(pending.clusters),
        since,
    )


def workload_of(binding: Binding) -> str:
    resource = binding.spec.resource
    return f"{resource.kind.lower()}/{resource.name}"
