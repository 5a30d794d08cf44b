"""`trimtab fleet`: list the member clusters with readiness and free capacity."""

from typing import cast

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.output import format_objects, output_option
from trimtab.cli.support.reports import print_report, watch_option
from trimtab.client.client import Client, resource_of
from trimtab.controllers.conditions import find_condition
from trimtab.decide.node_capacity import amount_of, free_amount
from trimtab.tables import format_table

HEADINGS = ("NAME", "READY", "VERSION", "MODE", "REGION", "NODES", "CPU FREE", "MEMORY FREE", "PODS FREE", "TAINTS")
WIDE_HEADINGS = ("ZONES", "PROVIDER", "LABELS")


@click.command()
@output_option
@watch_option
@kubeconfig_options
def command(output: str, watch: bool, kubeconfig: str, context: str) -> None:
    """List the member clusters with readiness, region and free capacity."""

    async def render(client: Client) -> str:
        found = await list_clusters(client)
        if output in ("name", "json", "yaml"):
            return format_objects(found, output)
        if not found:
            return "There are no clusters. Join one with: trimtab join NAME --kubeconfig FILE"
        if output == "wide":
            return format_table((*HEADINGS, *WIDE_HEADINGS), [(*cluster_row(c), *wide_cells(c)) for c in found])
        return format_table(HEADINGS, map(cluster_row, found))

    print_report(kubeconfig, context, render, watch=watch)


def wide_cells(cluster: Cluster) -> tuple[str, ...]:
    labels = " ".join(f"{name}={value}" for name, value in sorted(cluster.metadata.labels.items()))
    return (" ".join(cluster.spec.zones) or "-", cluster.spec.provider or "-", labels or "-")


async def list_clusters(client: Client) -> list[Cluster]:
    kind = kind_of(Cluster)
    listing = await client.list(resource_of(kind))
    found = [cast("Cluster", kind.decode(raw)) for raw in listing.items]
    return sorted(found, key=lambda cluster: cluster.name)


def cluster_row(cluster: Cluster) -> tuple[str, ...]:
    ready = find_condition(cluster.status.conditions, "Ready")
    nodes = cluster.status.node_summary
    return (
        cluster.name,
        ready.status if ready else "Unknown",
        cluster.status.kubernetes_version or "-",
        cluster.spec.sync_mode or "-",
        cluster.spec.region or "-",
        f"{nodes.ready_num}/{nodes.total_num}" if nodes else "-",
        free_text(cluster, "cpu"),
        free_text(cluster, "memory"),
        free_text(cluster, "pods"),
        ",".join(f"{taint.key}:{taint.effect}" for taint in cluster.spec.taints) or "-",
    )


def free_text(cluster: Cluster, resource: str) -> str:
    """What is free, as the scheduler counts it; pods that no node can take are not subtracted."""
    left = free_amount(cluster, resource)
    if left is None:
        summary = cluster.status.resource_summary
        if summary is None or resource not in summary.allocatable:
            return "-"
        left = amount_of(resource, summary.allocatable[resource])
        for used in (summary.allocated, summary.allocating):
            left -= amount_of(resource, used.get(resource, "0"))
    left = max(0, left)
    if resource == "cpu":
        return f"{left / 1000:.1f}"
    return f"{left / (1 << 30):.1f}Gi" if resource == "memory" else str(left)
