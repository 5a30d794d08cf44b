"""`trimtab reschedule`: run the rescheduler once, or show its plan."""

from pathlib import Path

import click
import msgspec

from trimtab.api.profile import PROFILES
from trimtab.api.quantity import from_milli
from trimtab.api.value import Raw
from trimtab.api.wording import plural
from trimtab.api.yaml_documents import FILE, YamlError, load_yaml
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.output import format_structured, output_option
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.decide.pods.metrics.measurements import METRIC_RESOURCES
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.rescheduling.plan import ReschedulingPlan
from trimtab.decide.rescheduling.settings import ReschedulerSettings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot
from trimtab.errors import InputError, unreadable
from trimtab.plugins.objectives.underutilised_nodes import UnderutilisedNodesArgs, utilisation_state
from trimtab.rescheduling.configuration import NAME, NAMESPACE, ReschedulerConfig, read_config
from trimtab.rescheduling.rescheduler import Rescheduler
from trimtab.tables import format_table

TableRow = tuple[str, ...]
MAX_NODES = 20
"""Nodes in a table that is not wide."""
NO_AVOID_LISTS = "kube-scheduler does not read avoid lists: only the score gain keeps replacements off their old nodes"


def read_config_file(file: str) -> ReschedulerConfig | None:
    """The settings of a file with rescheduler settings or a DeschedulerPolicy; None without a file."""
    if not file:
        return None
    try:
        text = Path(file).read_text()
        decoded = load_yaml(text, FILE)
    except (OSError, UnicodeDecodeError) as fault:
        raise unreadable(file, fault) from fault
    except YamlError as fault:
        raise InputError(f"{file} is not YAML: {fault}") from fault
    is_policy = isinstance(decoded, dict) and decoded.get("kind") == "DeschedulerPolicy"
    return read_config({"policy.yaml" if is_policy else "rescheduler.yaml": text})


@click.command()
@click.option("--plan", "only_plan", is_flag=True, help="Only show the plan.")
@click.option(
    "--config", default="", help="File with settings or a DeschedulerPolicy. Default: the ConfigMap in the cluster."
)
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="trimtab", show_default=True)
@output_option
@kubeconfig_options
def command(only_plan: bool, config: str, profile: str, output: str, kubeconfig: str, context: str) -> None:
    """Run the rescheduler once. With --plan show which pods would move, which would not, and why."""

    async def work(client: Client) -> tuple[str, str, ReschedulingPlan]:
        rescheduler = Rescheduler(
            client, clock=WallClock(), profile=PROFILES[profile], fixed_config=read_config_file(config)
        )
        await rescheduler.configuration.load()
        source = config or f"the ConfigMap {NAMESPACE}/{NAME}"
        if rescheduler.configuration.current is None:
            source = f"defaults; there is no ConfigMap {NAMESPACE}/{NAME}"
            rescheduler = Rescheduler(
                client, clock=WallClock(), profile=PROFILES[profile], fixed_config=read_config({})
            )
        if not only_plan:
            done = await rescheduler.run_round()
            if done is None:
                raise InputError("the rescheduler is not configured")
            return f"{rescheduler.configuration.goals} ({source})", "", done
        picture, found = await rescheduler.plan_round(confirmations=1)
        if picture.objects.rejects_overlap:  # a cluster that Trimtab does not serve
            found = found._replace(notes=(*found.notes, NO_AVOID_LISTS))
        limits = None if rescheduler.configuration.policy is not None else utilisation_limits(picture.settings)
        nodes = format_nodes(picture, limits, wide=output == "wide")
        return f"{rescheduler.configuration.goals} ({source})", nodes, found

    summary, nodes, found = with_client(kubeconfig, context, work)
    if output in ("json", "yaml"):
        click.echo(format_structured(plan_to_dict(found), output))
        return
    if output == "name":
        for move in found.moves:
            click.echo("/".join(("Pod", *move.pod.key)))
        return
    click.echo(summary)
    if nodes:
        click.echo(nodes)
    click.echo(format_plan(found))


def format_nodes(picture: ReschedulingSnapshot, limits: UnderutilisedNodesArgs | None, *, wide: bool = False) -> str:
    headings, rows = node_table(picture, limits)
    shown = rows if wide else rows[:MAX_NODES]
    lines = [format_table(headings, shown)]
    if hidden := len(rows) - len(shown):
        lines.append(f"and {plural(hidden, 'node')} with lower requests; -o wide lists all")
    return "\n".join((*lines, *((limits_text(limits),) if limits is not None else ())))


def node_table(picture: ReschedulingSnapshot, limits: UnderutilisedNodesArgs | None) -> tuple[TableRow, list[TableRow]]:
    """The nodes, those with the highest CPU requests first: requests, measured usage, pods and limits."""
    measures = picture.objects.measures
    hosts = sorted(picture.fleet.nodes, key=lambda node: (-requested_percent(node, "cpu"), node.name))
    headings: TableRow = ("NODE", "CPU REQUESTED", "MEMORY REQUESTED")
    headings += ("CPU USED", "MEMORY USED") if measures is not None else ()
    headings += ("PODS", "SCHEDULABLE", *(("STATE",) if limits is not None else ()))
    rows = []
    for node in hosts:
        row: TableRow = (node.name, *(_amount_text(node, what, node.used.get(what, 0)) for what in METRIC_RESOURCES))
        if measures is not None:
            used = measures.nodes.get(node.name, {})
            row += tuple(_amount_text(node, what, used[what]) if what in used else "?" for what in METRIC_RESOURCES)
        row += (f"{len(node.pods)} of {node.allocatable.get('pods', 0)}",)
        row += ("no" if node.name in picture.excluded_nodes else "yes",)
        rows.append((*row, *((utilisation_state(node, limits),) if limits is not None else ())))
    return headings, rows


def _amount_text(node: NodeInfo, what: str, amount: int) -> str:
    """Percentage and amounts of a resource."""
    size = node.allocatable.get(what, 0)
    shown = (from_milli(amount), from_milli(size)) if what == "cpu" else (f"{amount >> 20}Mi", f"{size >> 20}Mi")
    return f"{100 * amount / size if size else 0:.0f} % ({shown[0]} of {shown[1]})"


def utilisation_limits(settings: ReschedulerSettings) -> UnderutilisedNodesArgs | None:
    """The limits of the objective UnderutilisedNodes; None when it is not enabled."""
    found = next((one for one in settings.objectives if one.name == "UnderutilisedNodes" and one.enabled), None)
    return msgspec.convert(found.args, UnderutilisedNodesArgs, strict=False) if found is not None else None


def limits_text(args: UnderutilisedNodesArgs) -> str:
    sides = [", ".join(f"{what} {limit:g} %" for what, limit in side.items()) for side in (args.low, args.high)]
    return f"by requests, a node is idle at or below {sides[0]}, and crowded above {sides[1]}"


def requested_percent(node: NodeInfo, resource: str) -> float:
    size = node.allocatable.get(resource, 0)
    return 100.0 * node.used.get(resource, 0) / size if size else 0.0


def pod_count_text(count: int, verb: str) -> str:
    return f"{count} pod {verb}s" if count == 1 else f"{count} pods {verb}"


def format_plan(found: ReschedulingPlan) -> str:
    moves = [
        ("/".join(one.pod.key), one.source, one.expected or "?", f"{one.gain:.0f} %", one.objective, one.reason)
        for one in found.moves
    ]
    stay = [
        ("/".join(one.pod.key), one.pod.pod.spec.node_name, f"{one.gain:.0f} %", one.objective, one.reason)
        for one in found.rejected
    ]
    parts = [*found.notes, pod_count_text(len(moves), "move")]
    if moves:
        parts.append(format_table(("POD", "FROM", "TO", "GAIN", "OBJECTIVE", "REASON"), moves))
    if stay:
        parts += [
            "",
            f"{pod_count_text(len(stay), 'stay')} despite a reason to move",
            format_table(("POD", "NODE", "GAIN", "OBJECTIVE", "REASON TO STAY"), stay),
        ]
    return "\n".join(parts)


def plan_to_dict(found: ReschedulingPlan) -> Raw:
    return {
        "notes": list(found.notes),
        "moves": [
            {
                "pod": "/".join(one.pod.key),
                "from": one.source,
                "to": one.expected,
                "gain": round(one.gain, 1),
                "objective": one.objective,
                "reason": one.reason,
            }
            for one in found.moves
        ],
        "refused": [
            {
                "pod": "/".join(one.pod.key),
                "node": one.pod.pod.spec.node_name,
                "gain": round(one.gain, 1),
                "objective": one.objective,
                "reason": one.reason,
            }
            for one in found.rejected
        ],
    }
