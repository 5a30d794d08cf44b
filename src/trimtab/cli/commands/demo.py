"""`trimtab demo`: a story on the wall clock, as a picture that needs no knowledge of Kubernetes to be read."""

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
from trimtab.app import Embedded
from trimtab.cli.commands.up import House
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import WallClock
from trimtab.server.local import LocalClient
from trimtab.stories.runner import Failed, Stage, clock_text
from trimtab.stories.story import Story, read_story
from trimtab.telemetry import speak

BUDGETS = resource_of(kind_of(DisruptionBudget))
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
NAMESPACE = "default"
LOOK_SECONDS = 0.5
LEGEND = "● a replica that serves   ○ one that starts or ends   ✗ a cluster nobody can reach"


class Sight(NamedTuple):
    """What is to be seen at one moment."""

    clusters: tuple[str, ...]
    serving: str
    budget: str


class Picture:
    """One line for every change of the fleet, below a headline for every act."""

    def __init__(self, story: Story, echo: Callable[[str], None]) -> None:
        self._names = [member.name for member in story.plan.members]
        self._width = max(12, *(len(name) + 2 for name in self._names))
        self._headlines = {step.say for step in story.timeline if step.say}
        self._echo = echo
        self._last: Sight | None = None

    def tell(self, at: float, text: str) -> None:
        """Of all that a stage tells, the headlines."""
        if text in self._headlines:
            self._echo(f"\n{text}\n")
            self._echo(self._row("time", self._names, "serving", "budget"))
            self._last = None

    def show(self, at: float, sight: Sight) -> None:
        if sight != self._last:
            self._last = sight
            self._echo(self._row(clock_text(at)[3:], sight.clusters, sight.serving, sight.budget))

    def _row(self, time: str, clusters: Iterable[str], serving: str, budget: str) -> str:
        cells = "".join(f"{cell:<{self._width}}" for cell in clusters)
        return f"  {time:<7}{cells}{serving:<10}{budget}".rstrip()


async def look(fleet: Embedded, now: datetime) -> Sight:
    """The fleet as it is; members are asked directly, because a dark cluster does not answer anybody else."""
    cells, serving = [], 0
    for member in fleet.world:
        pods = (await LocalClient(member.server).list(PODS, NAMESPACE)).items
        ready = sum(map(serves, pods))
        serving += ready if member.reachable else 0
        cells.append("●" * ready + "○" * (len(pods) - ready) if member.reachable else "✗ dark")
    wanted = sum(obj["spec"].get("replicas", 1) for obj in (await fleet.client.list(DEPLOYMENTS, NAMESPACE)).items)
    return Sight(tuple(cells), f"{serving} of {wanted}", await budget_text(fleet.client, now))


def serves(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


async def budget_text(client: Client, now: datetime) -> str:
    listing = await client.list(BUDGETS, NAMESPACE)
    return ", ".join(allowances(listing.items, now))


def allowances(budgets: Iterable[Raw], now: datetime) -> Iterator[str]:
    for budget in budgets:
        status = budget.get("status") or {}
        if status.get("inFlight"):
            yield "a move is going on"
        elif status.get("allowedNow", 0) > 0:
            yield "a move is allowed"
        elif (later := status.get("nextAllowedAt")) is not None and datetime.fromisoformat(later) > now:
            yield "spent, wait"
        else:
            yield "no move allowed"


async def live(story: Story, echo: Callable[[str], None], folder: Path) -> float:
    """Play the story as `trimtab up` would live it, showing the picture; `Failed` when it does not come true."""
    picture = Picture(story, echo)
    house = House(folder, "127.0.0.1", 0, story.plan, story.profile, story.settings)
    clock = WallClock()
    stage = Stage(story, house.fleet, clock, picture.tell)

    async def watch() -> None:
        while True:
            picture.show(stage.now, await look(house.fleet, clock.now().astimezone(UTC)))
            await asyncio.sleep(LOOK_SECONDS)

    watching: asyncio.Task[None] | None = None
    try:
        await house.open()
        await house.start()
        watching = asyncio.get_running_loop().create_task(watch())
        took = await stage.play()
        picture.show(took, await look(house.fleet, clock.now().astimezone(UTC)))
        return took
    finally:
        if watching is not None:
            watching.cancel()
        await house.stop()


@click.command()
@click.argument("story", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(story: Path) -> None:
    """Show a story on the wall clock as a picture; exit with 1 if it does not go as it must."""
    speak()
    told = read_story(story)
    click.echo(f"{told.name}\n\n{LEGEND}")
    with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as folder:
        try:
            took = asyncio.run(live(told, click.echo, Path(folder)))
        except Failed as failed:
            click.echo("\n".join(["", f"FAILED at {clock_text(failed.at)}: {failed.expectation}", *failed.facts]))
            raise click.exceptions.Exit(1) from failed
    click.echo(f"\nAll of it came true, in {took:.0f} seconds of real time.")
