"""Runs a story: carries out its steps on a fleet and checks its expectations at every interval."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from trimtab.api.profile import PROFILES
from trimtab.client.client import Client
from trimtab.clock import Clock, LoopClock
from trimtab.dryrun.fleet_state import FleetState
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import ApiError, InputError
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.simulate.member_server import seeded_uids
from trimtab.store.store import Store
from trimtab.stories.expectation_checks import ExpectationChecks, read_objects, values_of
from trimtab.stories.expectations import Expression
from trimtab.stories.objects import StoryObjects
from trimtab.stories.report import ChangeReport, FleetReport, StoryFailed, WriteLine
from trimtab.stories.saved_fleet import fleet_plan_of, load_saved_state, wait_until_workloads_run
from trimtab.stories.steps import StepActions
from trimtab.stories.story import Story, StoryStep, parse_seconds

STARTUP_SECONDS = 120.0
"""How long the clusters may take to become ready before the story starts."""


def new_fleet(story: Story, clock: Clock, saved: FleetState | None = None, **options: Any) -> EmbeddedFleet:
    """A host in memory and the members of the story, or of a saved fleet; start the host first.

    `options` are those of EmbeddedFleet.
    """
    rng = random.Random(f"{story.seed}/host")  # noqa: S311 - a story must be repeatable
    uids = seeded_uids(rng)
    settings = ApiServerSettings(clock=clock, plugins=[PeerWebhooks(uids)], new_uid=uids, token_key=rng.randbytes(32))
    host = ApiServer(Store(), settings)
    return EmbeddedFleet(
        story.plan if saved is None else fleet_plan_of(saved),
        host=host,
        clock=clock,
        profile=PROFILES[story.profile],
        settings=story.settings,
        seed=story.seed,
        **options,
    )


async def run_in_memory(
    story: Story,
    write_line: WriteLine,
    progress: Callable[[float], None] = lambda _: None,
    *,
    saved: FleetState | None = None,
    **options: Any,
) -> float:
    """Run the story on the running loop's clock and return its length in seconds. Raises `StoryFailed`.

    With a `saved` state the story begins with its clusters and workloads, at its time.
    """
    clock = LoopClock() if saved is None else LoopClock(saved.now)
    fleet = new_fleet(story, clock, saved, **options)
    await fleet.host.start()
    try:
        await fleet.start()
        if saved is not None:
            await load_saved_state(fleet, saved)
            await wait_until_workloads_run(fleet, saved)
        return await StoryRunner(story, fleet, clock, write_line, progress).run()
    finally:
        await fleet.stop()
        await fleet.host.stop()


class StoryRunner:
    """One run of one story: its time, and its steps one after the other."""

    def __init__(
        self,
        story: Story,
        fleet: EmbeddedFleet,
        clock: Clock,
        write_line: WriteLine,
        progress: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._story = story
        self._fleet = fleet
        self._write_line = write_line
        self._progress = progress
        self._started_at = 0.0
        self._interval = parse_seconds(story.every)
        self.objects = StoryObjects(self._client, lambda: fleet.world.members)
        self._report = FleetReport(self.objects, lambda: fleet.world.members)
        self._changes = ChangeReport(self._report)
        self._actions = StepActions(fleet, clock, self.objects, lambda: self.now, write_line)
        steps = {step.name for step in story.timeline if step.name}
        self._expectations = ExpectationChecks(
            self.objects, self._report, steps, now=lambda: self.now, write_line=write_line
        )
        self._steps_done = 0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._started_at

    async def run(self) -> float:
        await self._start()
        for expectation in self._story.expect:
            self._expectations.add(expectation, None if expectation.that else 0.0)
        for number, step in enumerate(self._story.timeline, 1):
            await self._run_step(number, step)
            self._steps_done += 1
        self._expectations.all_steps_done()
        await self._wait_until(max([parse_seconds(self._story.lasts), *self._expectations.ends]))
        while self._expectations.are_pending:
            await self._wait_until(self.now + self._interval)
        self._expectations.demand_all_checked()
        self._actions.stop()
        return self.now

    async def _start(self) -> None:
        """Wait until every cluster is ready; the time of the story starts then."""
        self._started_at = asyncio.get_running_loop().time()
        ready = Expression("ready(Cluster/*) == count(Cluster/*)")
        await self._changes.lines()
        while not ready.is_true(await read_objects(self.objects, ready)):
            if self.now > STARTUP_SECONDS:
                message = f"not all clusters became ready within {STARTUP_SECONDS:.0f} seconds"
                raise StoryFailed(message, self.now, await self._report.state())
            await asyncio.sleep(0.5)
        await self._changes.lines()
        self._started_at = asyncio.get_running_loop().time()

    async def _wait_until(self, end: float, when: Expression | None = None) -> bool:
        """Let time pass and check the expectations; true when `when` became true before the end."""
        while True:
            await self._check()
            if when is not None and when.is_true(await read_objects(self.objects, when)):
                return True
            rest = end - self.now
            if rest <= 1e-9:
                return False
            await asyncio.sleep(min(self._interval, rest))

    async def _check(self) -> None:
        for line in await self._changes.lines():
            self._write_line(self.now, line)
        await self._expectations.check()
        total = len(self._story.timeline) + self._expectations.goal_count
        self._progress((self._steps_done + self._expectations.met_count) / max(1, total))

    def _client(self, where: str) -> Client:
        """Members are read directly, so that a story sees them while the control plane cannot reach them."""
        if where and where not in self._fleet.world.members:
            raise InputError(f"there is no member {where}; members: {', '.join(self._fleet.world.members)}")
        return LocalClient(self._fleet.world[where].server) if where else self._fleet.client

    async def _run_step(self, number: int, step: StoryStep) -> None:
        await self._wait_for(number, step)
        if step.say:
            self._write_line(self.now, step.say)
        self._expectations.step_reached(step.name)
        try:
            await self._actions.run(step, self._wait_until)
        except (ApiError, InputError) as fault:
            raise StoryFailed(f"step {number} could not be applied: {fault}", self.now, []) from fault
        for expectation in step.expect:
            self._expectations.add(expectation, self.now)
        if step.wait is not None:
            await self._wait_until(self.now + parse_seconds(step.wait))

    async def _wait_for(self, number: int, step: StoryStep) -> None:
        """Wait for the time or the condition at which the step starts."""
        if step.at is not None:
            await self._wait_until(parse_seconds(step.at))
        elif step.after is not None:
            await self._wait_until(self.now + parse_seconds(step.after))
        elif step.when:
            expression = Expression(step.when)
            if not await self._wait_until(self.now + parse_seconds(step.timeout), expression):
                facts = values_of(expression, await read_objects(self.objects, expression))
                message = f"step {number} did not start: its condition did not become true: {step.when}"
                raise StoryFailed(message, self.now, [*facts, *(await self._report.state())])
