"""`trimtab demo`: run a story in real time and print the replicas of every cluster as dots."""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import WallClock
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.local_fleet import LocalFleet
from trimtab.server.local import LocalClient
from trimtab.stories.report import StoryFailed, clock_text
from trimtab.stories.runner import StoryRunner
from trimtab.stories.story import Story, read_story
from trimtab.telemetry import configure_logging

BUDGETS = resource_of(kind_of(DisruptionBudget))
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
NAMESPACE = "default"
POLL_SECONDS = 0.5
LEGEND = "● ready replica   ○ starting or terminating replica   ✗ unreachable cluster"


class DemoRow(NamedTuple):
    """One line of the output."""

    clusters: tuple[str, ...]
    serving: str
    budget: str


class DemoOutput:
    """Prints a heading for every act, and a line for every change of the fleet."""

    def __init__(self, story: Story, echo: Callable[[str], None]) -> None:
        self._names = [member.name for member in story.plan.members]
        self._width = max(12, *(len(name) + 2 for name in self._names))
        self._headings = {step.say for step in story.timeline if step.say}
        self._echo = echo
        self._last_row: DemoRow | None = None

    def write_heading(self, at: float, text: str) -> None:
        """Print the headings of the story, and none of its other lines."""
        if text in self._headings:
            self._echo(f"\n{text}\n")
            self._echo(self._row("time", self._names, "serving", "budget"))
            self._last_row = None

    def write_row(self, at: float, sight: DemoRow) -> None:
        if sight != self._last_row:
            self._last_row = sight
            self._echo(self._row(clock_text(at)[3:], sight.clusters, sight.serving, sight.budget))

    def _row(self, time: str, clusters: Iterable[str], serving: str, budget: str) -> str:
        cells = "".join(f"{cell:<{self._width}}" for cell in clusters)
        return f"  {time:<7}{cells}{serving:<10}{budget}".rstrip()


async def current_row(fleet: EmbeddedFleet, now: datetime) -> DemoRow:
    """The current state; members are read directly, because an unreachable one does not answer the control plane."""
    cells, ready_total = [], 0
    for member in fleet.world:
        pods = (await LocalClient(member.server).list(PODS, NAMESPACE)).items
        ready = sum(map(is_serving, pods))
        ready_total += ready if member.is_reachable else 0
        cells.append("●" * ready + "○" * (len(pods) - ready) if member.is_reachable else "✗")
    wanted = sum(obj["spec"].get("replicas", 1) for obj in (await fleet.client.list(DEPLOYMENTS, NAMESPACE)).items)
    return DemoRow(tuple(cells), f"{ready_total} of {wanted}", await budget_text(fleet.client, now))


def is_serving(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


async def budget_text(client: Client, now: datetime) -> str:
    listing = await client.list(BUDGETS, NAMESPACE)
    return ", ".join(budget_states(listing.items, now))


def budget_states(budgets: Iterable[Raw], now: datetime) -> Iterator[str]:
    for budget in budgets:
        status = budget.get("status") or {}
        if status.get("inFlight"):
            yield "move in progress"
        elif status.get("allowedNow", 0) > 0:
            yield "move allowed"
        elif (later := status.get("nextAllowedAt")) is not None and datetime.fromisoformat(later) > now:
            yield "rate used up"
        else:
            yield "no move allowed"


async def run_demo(story: Story, echo: Callable[[str], None], folder: Path) -> float:
    """Run the story on a served fleet and print its state; raises `StoryFailed`."""
    output = DemoOutput(story, echo)
    local = LocalFleet(folder, "127.0.0.1", 0, story.plan, story.profile, story.settings)
    clock = WallClock()
    runner = StoryRunner(story, local.fleet, clock, output.write_heading)

    async def watch() -> None:
        while True:
            output.write_row(runner.now, await current_row(local.fleet, clock.now().astimezone(UTC)))
            await asyncio.sleep(POLL_SECONDS)

    watching: asyncio.Task[None] | None = None
    try:
        await local.open()
        await local.start()
        watching = asyncio.get_running_loop().create_task(watch())
        took = await runner.run()
        output.write_row(took, await current_row(local.fleet, clock.now().astimezone(UTC)))
        return took
    finally:
        if watching is not None:
            watching.cancel()
        await local.stop()


@click.command()
@click.argument("story", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(story: Path) -> None:
    """Run a story in real time and print replicas as dots. The exit code is 1 when the story fails."""
    configure_logging()
    parsed = read_story(story)
    click.echo(f"{parsed.name}\n\n{LEGEND}")
    with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as folder:
        try:
            took = asyncio.run(run_demo(parsed, click.echo, Path(folder)))
        except StoryFailed as failed:
            click.echo("\n".join(["", f"FAILED at {clock_text(failed.at)}: {failed.message}", *failed.facts]))
            raise click.exceptions.Exit(1) from failed
    click.echo(f"\nAll expectations were met in {took:.0f} seconds.")
