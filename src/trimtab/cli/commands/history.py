"""`trimtab history`: list moves with what began them, duration, outcome and budgets."""

from datetime import UTC, datetime

import click

from trimtab.api.kinds.disruption import Move
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.cli.support.output import format_objects, output_option
from trimtab.cli.support.reports import print_report, watch_option
from trimtab.client.client import Client
from trimtab.client.lookups import SHORT_NAMES, list_typed
from trimtab.interpret.names import binding_name
from trimtab.tables import format_table

HEADINGS = (
    "STARTED",
    "WORKLOAD",
    "CAUSE",
    "FROM",
    "TO",
    "REPLICAS",
    "MODE",
    "TOOK",
    "OUTCOME",
    "BUDGETS",
    "WHY",
    "RESULT",
)

WIDE_COLUMNS = 1
"""The last columns, which only `-o wide` shows."""
BINDING_WORDS = ("resourcebinding", "resourcebindings", "clusterresourcebinding", "clusterresourcebindings")


@click.command()
@click.argument("binding", default="")
@namespace_option()
@click.option("-A", "--all-namespaces", is_flag=True, help="Moves of all namespaces.")
@click.option(
    "--limit", type=int, default=50, show_default=True, help="Maximum number of moves to show; the newest is last."
)
@output_option
@watch_option
@kubeconfig_options
def command(
    binding: str,
    namespace: str,
    all_namespaces: bool,
    limit: int,
    output: str,
    watch: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """List the moves of all workloads, or of one workload (deploy/web) or binding."""

    async def render(client: Client) -> str:
        found = await list_typed(client, Move, "" if all_namespaces else namespace)
        found = [move for move in found if is_about(move, binding)]
        found.sort(key=lambda move: (move.status.started or datetime.now(UTC), move.name))
        if output in ("name", "json", "yaml"):
            return format_objects(found[-limit:], output)
        if not found:
            place = "" if all_namespaces else f" in namespace {namespace}; -A shows all namespaces"
            return f"There are no moves of {binding}{place}." if binding else f"There are no moves{place}."
        columns = len(HEADINGS) if output == "wide" else len(HEADINGS) - WIDE_COLUMNS
        return format_table(HEADINGS[:columns], [move_row(move)[:columns] for move in found[-limit:]])

    print_report(kubeconfig, context, render, watch=watch)


def is_about(move: Move, name: str) -> bool:
    """Whether the move is of the binding or workload with this name; true when the name is empty."""
    about = move.spec.object
    word, slash, own = name.rpartition("/")
    if slash and word.lower() not in ("rb", "crb", *BINDING_WORDS):
        kind = SHORT_NAMES.get(word.lower(), word).lower()
        return own == about.name and kind in (about.kind.lower(), f"{about.kind.lower()}s")
    return not own or own in (about.name, binding_name(about.kind, about.name))


def move_row(move: Move) -> tuple[str, ...]:
    spec, status = move.spec, move.status
    started, finished = status.started, status.finished
    took = f"{(finished - started).total_seconds():.1f}s" if started and finished else "-"
    return (
        f"{started:%Y-%m-%d %H:%M:%S}" if started else "-",
        "/".join(part for part in (spec.object.namespace, spec.object.name) if part),
        spec.cause,
        spec.from_,
        " ".join(f"{target.name}:{target.replicas}" for target in spec.to) or "-",
        str(spec.replicas),
        spec.mode or "-",
        took,
        status.outcome or "in progress",
        " ".join(use.name for use in spec.budgets) or "-",
        spec.message or "-",
        status.message or "-",
    )
