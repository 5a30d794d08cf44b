"""Options for the simulated members of a fleet: from a file, from a snapshot, or so many of one size."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from trimtab.dryrun.fleet_state import FleetState
    from trimtab.simulate.fleet import FleetPlan

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--fleet", "fleet_file", type=click.Path(path_type=Path), help="File that describes the simulated members."
    ),
    click.option(
        "--from",
        "snapshot",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Simulate the clusters and workloads of a snapshot that `trimtab snapshot` has written.",
    ),
    click.option("--clusters", type=click.IntRange(1, 1000), help="Number of simulated member clusters."),
    click.option(
        "--nodes", type=click.IntRange(1, 1000), help="Number of nodes of each simulated member.  [default: 3]"
    ),
    click.option("--no-fleet", is_flag=True, help="Start without simulated members."),
)


class ChosenFleet(NamedTuple):
    """The members to simulate; None: those of the last start, or the default ones."""

    plan: "FleetPlan | None"
    saved: "FleetState | None" = None
    """The state of a snapshot, which the fleet begins with."""


def simulated_fleet_options(command: F) -> F:
    """Add the options; `take_fleet` takes their values out of those of the command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_fleet(options: dict[str, Any], data_dir: Path) -> ChosenFleet:
    fleet_file, snapshot = options.pop("fleet_file"), options.pop("snapshot")
    clusters, nodes, no_fleet = options.pop("clusters"), options.pop("nodes"), options.pop("no_fleet")
    plan = plan_from_options(fleet_file, clusters, nodes, no_fleet=no_fleet)
    if snapshot is None:
        return ChosenFleet(plan)
    if plan is not None:
        raise click.UsageError("--from cannot be combined with --fleet, --clusters, --nodes and --no-fleet")
    return read_saved_fleet(snapshot, data_dir)


def plan_from_options(
    fleet_file: Path | None, clusters: int | None, nodes: int | None, *, no_fleet: bool
) -> "FleetPlan | None":
    """The fleet that the options describe; None when no option does."""
    from trimtab.simulate.fleet import FleetPlan, read_fleet, uniform_fleet  # noqa: PLC0415

    counted = clusters is not None or nodes is not None
    if (fleet_file is not None) + counted + no_fleet > 1:
        raise click.UsageError("give only one of --fleet, --clusters (with --nodes) and --no-fleet")
    if no_fleet:
        return FleetPlan()
    if fleet_file is not None:
        return read_fleet(fleet_file)
    return uniform_fleet(clusters or 3, nodes or 3) if counted else None


def read_saved_fleet(snapshot: Path, data_dir: Path) -> ChosenFleet:
    """The state of a snapshot and members like its clusters; a data directory that has a fleet is refused."""
    from trimtab.dryrun.snapshot import read_snapshot  # noqa: PLC0415
    from trimtab.errors import InputError  # noqa: PLC0415
    from trimtab.runtime.declarations import load_declarations  # noqa: PLC0415
    from trimtab.stories.saved_fleet import fleet_plan_of  # noqa: PLC0415

    if (data_dir / "fleet.json").exists():
        raise InputError(f"{data_dir} has a fleet already; give another --data-dir to start from a snapshot")
    load_declarations()
    state = read_snapshot(snapshot)
    return ChosenFleet(fleet_plan_of(state, pace="fast"), state)
