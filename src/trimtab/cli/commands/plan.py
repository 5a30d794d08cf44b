"""`trimtab plan`: show what a change would create, move and refuse, before anything is written."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from trimtab.api.kind import find_kind
from trimtab.api.kinds.policy import Policy
from trimtab.api.profile import PROFILES
from trimtab.api.value import Raw
from trimtab.cli.commands.apply_plan import carry_out
from trimtab.cli.commands.rebalance import selector_of
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.cli.support.options.settings import parse_settings
from trimtab.cli.support.output import format_structured, output_option
from trimtab.cli.support.reports import echo_report
from trimtab.cli.support.server_state import fetch_state, profile_option
from trimtab.client.client import Client, Resource, resource_of
from trimtab.client.lookups import reference_to
from trimtab.dryrun.change import Change, parse_taint
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.manifest import Manifests
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_report import report_lines
from trimtab.dryrun.plan_result import UNCHANGED, Plan
from trimtab.dryrun.snapshot import read_snapshot
from trimtab.errors import InputError
from trimtab.runtime.declarations import load_kinds
from trimtab.store.files import replace_file


@click.command()
@click.option("-f", "--filename", "files", multiple=True, help="File or directory to apply; `-` is standard input.")
@click.option("--lose-cluster", "lose_clusters", multiple=True, metavar="NAME", help="Assume that this cluster fails.")
@click.option("--lose-region", "lose_regions", multiple=True, metavar="NAME", help="Assume that this region fails.")
@click.option("--drain", "drains", multiple=True, metavar="NAME", help="Drain this cluster.")
@click.option(
    "--taint",
    "taints",
    multiple=True,
    metavar="CLUSTER:KEY[=VALUE]:EFFECT[-]",
    help="Set this taint, or with a `-` at the end remove it.",
)
@click.option(
    "--rebalance",
    "rebalances",
    multiple=True,
    metavar="SELECTOR",
    help="Rebalance workloads: KIND/NAME, or labels such as team=blue.",
)
@click.option(
    "--kind", "kind_", default="deployment", show_default=True, help="Kind that labels of --rebalance select."
)
@namespace_option()
@click.option("-A", "--all-namespaces", is_flag=True, help="With labels in --rebalance: select in all namespaces.")
@click.option(
    "--from",
    "snapshot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plan on a snapshot that `trimtab snapshot` has written, instead of a running fleet.",
)
@click.option(
    "--forecast",
    "with_forecast",
    is_flag=True,
    help="Also run the plan on a virtual clock: when it is finished, and how many replicas run twice at most.",
)
@click.option(
    "--pace",
    type=click.Choice(["instant", "fast", "typical", "slow"]),
    default="typical",
    show_default=True,
    help="How fast pods start in a forecast.",
)
@click.option("--horizon", default="4h", show_default=True, metavar="DURATION", help="The longest forecast.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Controller setting; can be repeated.")
@profile_option
@output_option
@click.option("--out", "out", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan to this file.")
@kubeconfig_options
def command(
    files: tuple[str, ...],
    lose_clusters: tuple[str, ...],
    lose_regions: tuple[str, ...],
    drains: tuple[str, ...],
    taints: tuple[str, ...],
    rebalances: tuple[str, ...],
    kind_: str,
    namespace: str,
    all_namespaces: bool,
    snapshot: Path | None,
    with_forecast: bool,
    pace: str,
    horizon: str,
    settings: tuple[str, ...],
    profile: str | None,
    output: str,
    out: Path | None,
    kubeconfig: str,
    context: str,
) -> int:
    """Show what a change would create, move and refuse, when, and at which cost. Nothing is written.

    Exit codes: 0 nothing changes, 2 something changes, 3 something is refused or stays down, 1 error.
    """
    if not (files or lose_clusters or lose_regions or drains or taints or rebalances):
        raise click.UsageError(
            "give files (-f), or what happens: --lose-cluster, --lose-region, --drain, --taint or --rebalance"
        )
    manifests = manifests_in(files)
    if files and not manifests.items:
        names = ["the standard input" if name == "-" else name for name in files]
        raise InputError(f"there are no objects in {', '.join(names)}")
    for warning in manifests.warnings:
        click.echo(f"Warning: {warning}", err=True)
    change = Change(
        objects=tuple(item.as_written for item in manifests.items),
        drain=drains,
        taints=tuple(parse_taint(text) for text in taints),
        lose_clusters=lose_clusters,
        lose_regions=lose_regions,
    )
    load_kinds()
    selection = RebalanceSelection(rebalances, kind_, "" if all_namespaces else namespace)
    chosen = parse_settings(settings)
    if snapshot is not None:
        state = saved_state(snapshot, profile, chosen)
        plan = make_plan(state, change.but(rebalance=rebalance_spec(selection, resources_in(state))))
    else:
        planning = partial(
            plan_on_server, change, selection, profile=profile, policies=manifests.policies, settings=chosen
        )
        state, plan = with_client(kubeconfig, context, planning)
    if with_forecast:
        plan = with_simulated_forecast(plan, state, pace, horizon)
    if out is not None:
        write_plan(plan, out)
    print_plan(plan, output)
    return plan.exit_code


def manifests_in(files: Sequence[str]) -> Manifests:
    if not files:
        return Manifests((), ())
    from trimtab.dryrun.manifests import read_manifests  # noqa: PLC0415 - it imports the API server

    return read_manifests(files)


def saved_state(snapshot: Path, profile: str | None, settings: dict[str, object]) -> FleetState:
    """The state of a snapshot, with the settings and the profile that were given instead of its own."""
    saved = read_snapshot(snapshot)
    state = saved._replace(settings={**saved.settings, **settings})
    return state._replace(profile=PROFILES[profile]) if profile is not None else state


async def plan_on_server(
    change: Change,
    selection: "RebalanceSelection",
    client: Client,
    *,
    profile: str | None,
    policies: Sequence[Policy],
    settings: dict[str, object],
) -> tuple[FleetState, Plan]:
    """The plan for the fleet as a server has it now, with its profile and the settings of its controllers."""
    if any(find_kind(raw["apiVersion"], raw["kind"]) is None for raw in change.objects):
        check_kinds(change.objects, await client.resources())
    asked = change.but(rebalance=rebalance_spec(selection, await client.resources() if selection.selectors else ()))
    state = await fetch_state(client, profile, settings, changed_templates=change.objects, policies=policies)
    return state, make_plan(state, asked)


def check_kinds(objects: Sequence[Raw], served: Sequence[Resource]) -> None:
    """Refuse kinds that neither the server serves nor a CustomResourceDefinition among the objects defines."""
    known = {(resource.api_version.rpartition("/")[0], resource.kind) for resource in served}
    definitions = [raw.get("spec") or {} for raw in objects if raw["kind"] == "CustomResourceDefinition"]
    known |= {(spec.get("group", ""), (spec.get("names") or {}).get("kind", "")) for spec in definitions}
    for raw in objects:
        if (raw["apiVersion"].rpartition("/")[0], raw["kind"]) not in known:
            name = raw["metadata"]["name"]
            raise InputError(f"{raw['kind']} {name}: the server serves no kind {raw['kind']} in {raw['apiVersion']}")


def with_simulated_forecast(plan: Plan, state: FleetState, pace: str, horizon: str) -> Plan:
    # Imported here: a plan alone needs no simulation, and is printed in half the time without.
    from trimtab.stories.forecast import ForecastOptions, forecast  # noqa: PLC0415
    from trimtab.stories.story import parse_seconds  # noqa: PLC0415

    return plan.but(forecast=forecast(state, plan, carry_out, ForecastOptions(pace, parse_seconds(horizon))))


class RebalanceSelection(NamedTuple):
    """What `--rebalance` selects; an empty namespace stands for all."""

    selectors: tuple[str, ...]
    kind: str
    namespace: str


def rebalance_spec(selection: RebalanceSelection, served: Sequence[Resource]) -> Raw | None:
    """The spec of the WorkloadRebalancer that the options describe."""
    if not selection.selectors:
        return None
    named = [text for text in selection.selectors if "/" in text and "=" not in text]
    labels = [text for text in selection.selectors if text not in named]
    spec: Raw = {
        "workloads": [reference_to(text, selection.namespace or "default", served) for text in named],
        "selectors": [
            selector_of(selection.kind, selection.namespace, text, served, option="--rebalance") for text in labels
        ],
    }
    return {key: value for key, value in spec.items() if value}


def resources_in(state: FleetState) -> list[Resource]:
    """The kinds of the templates in a snapshot."""
    return [resource_of(kind) for gvk in state.templates if (kind := find_kind(*gvk)) is not None]


def print_plan(plan: Plan, output: str) -> None:
    if output in ("json", "yaml"):
        click.echo(format_structured(plan, output))
    elif output == "name":
        for row in plan.workloads:
            if row.action != UNCHANGED:
                click.echo(row.workload)
    else:
        echo_report("\n".join(report_lines(plan, wide=output == "wide")))


def write_plan(plan: Plan, path: Path) -> None:
    """Write the plan for `trimtab apply-plan`; it contains the objects, so only the user may read it."""
    if path == Path("-"):
        raise InputError("--out needs a file; -o json prints the plan")
    try:
        replace_file(path, msgspec.json.format(msgspec.json.encode(plan)) + b"\n", mode=0o600)
    except OSError as fault:
        raise InputError(f"cannot write {path}: {fault.strerror or fault}") from fault
    use = f"carry it out with: trimtab apply-plan {path}" if not plan.change.is_loss else "a loss cannot be carried out"
    click.echo(f"plan {plan.hash[:12]} written to {path}; {use}", err=True)
