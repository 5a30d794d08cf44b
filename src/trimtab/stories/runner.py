"""Runs a story: carries out its steps on a fleet and checks its expectations at every interval."""

import asyncio
import random
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from trimtab.api.profile import PROFILES
from trimtab.app import EmbeddedFleet
from trimtab.client.client import Client
from trimtab.clock import Clock, LoopClock
from trimtab.errors import ApiError, InputError
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.simulate.member import seeded_uids
from trimtab.store.store import Store
from trimtab.stories.expectations import Expression, FindObjects
from trimtab.stories.objects import StoryObjects
from trimtab.stories.report import FleetReport, StoryFailed, clock_text, short_text
from trimtab.stories.steps import StepActions
from trimtab.stories.story import Expectation, Story, StoryStep, parse_seconds

STARTUP_SECONDS = 120.0
"""How long the clusters may take to become ready before the story starts."""
DEFAULT_WITHIN = 60.0
WriteLine = Callable[[float, str], None]
"""Receives the seconds since the start of the story and a line of text."""


class TrackedExpectation:
    """An expectation of the story, the period in which it applies, and whether it is met."""

    def __init__(self, expectation: Expectation, start: float | None, steps: AbstractSet[str]) -> None:
        self.expectation = expectation
        self.expression = Expression(expectation.text)
        self.from_step = str(expectation.start) if expectation.start in steps else ""
        self.until_step = str(expectation.until) if expectation.until in steps else ""
        self.start: float | None = start
        self.until: float | None = None
        self.is_met = False
        self.was_checked = False
        if expectation.start is not None:
            self.start = None if self.from_step else parse_seconds(expectation.start)
        if expectation.until is not None and not self.until_step:
            self.until = parse_seconds(expectation.until)

    def step_reached(self, step: str, now: float) -> None:
        """Set the start or the end of the period when it is given as the name of this step."""
        if step and step == self.from_step:
            self.start = now
        if step and step == self.until_step:
            self.until = now

    @property
    def deadline(self) -> float:
        within = self.expectation.within
        end = (self.start or 0.0) + (DEFAULT_WITHIN if within is None else parse_seconds(within))
        return end if self.until is None else min(end, self.until)

    def applies(self, now: float) -> bool:
        if self.is_met or self.start is None or now < self.start:
            return False
        # `that` is also checked once after its end; otherwise a missed deadline would never be reported.
        return self.until is None or now <= self.until or bool(self.expectation.that)

    @property
    def is_pending(self) -> bool:
        """Whether the story cannot end before this is met or fails."""
        return bool(self.expectation.that) and not self.is_met


def new_fleet(story: Story, clock: Clock, **options: Any) -> EmbeddedFleet:
    """A host in memory and the members of the story; start the host first. `options` are those of Embedded."""
    rng = random.Random(f"{story.seed}/host")  # noqa: S311 - a story must be repeatable
    uids = seeded_uids(rng)
    settings = ApiServerSettings(clock=clock, plugins=[PeerWebhooks(uids)], new_uid=uids, token_key=rng.randbytes(32))
    host = ApiServer(Store(), settings)
    return EmbeddedFleet(
        story.plan,
        host=host,
        clock=clock,
        profile=PROFILES[story.profile],
        settings=story.settings,
        seed=story.seed,
        **options,
    )


async def run_in_memory(
    story: Story, write_line: WriteLine, progress: Callable[[float], None] = lambda _: None, **options: Any
) -> float:
    """Run the story on the running loop's clock and return its length in seconds. Raises `StoryFailed`."""
    clock = LoopClock()
    fleet = new_fleet(story, clock, **options)
    await fleet.host.start()
    try:
        await fleet.start()
        return await StoryRunner(story, fleet, clock, write_line, progress).run()
    finally:
        await fleet.stop()
        await fleet.host.stop()


class StoryRunner:
    """One run of one story."""

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
        self._actions = StepActions(fleet, clock, self.objects, lambda: self.now, write_line)
        self._expectations: list[TrackedExpectation] = []
        self._reported: dict[str, str] = {}
        self._steps_done = 0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._started_at

    async def run(self) -> float:
        await self._start()
        for expectation in self._story.expect:
            self._expect(expectation, None if expectation.that else 0.0)
        for number, step in enumerate(self._story.timeline, 1):
            await self._run_step(number, step)
            self._steps_done += 1
        for tracked in self._expectations:
            if tracked.start is None:
                tracked.start = self.now
        await self._wait_for_expectations()
        for tracked in self._expectations:
            if not tracked.was_checked:
                fact = f"it applies from {clock_text(tracked.start or 0.0)}, and the story ended before"
                raise StoryFailed(f"never checked: {tracked.expectation}", self.now, [fact])
        self._actions.stop()
        return self.now

    async def _start(self) -> None:
        """Wait until every cluster is ready; the time of the story starts then."""
        self._started_at = asyncio.get_running_loop().time()
        ready = Expression("ready(Cluster/*) == count(Cluster/*)")
        await self._report_changes(quiet=True)
        while not await self._is_true(ready):
            if self.now > STARTUP_SECONDS:
                message = f"not all clusters became ready within {STARTUP_SECONDS:.0f} seconds"
                raise StoryFailed(message, self.now, await self._report.state())
            await asyncio.sleep(0.5)
        await self._report_changes(quiet=True)
        self._started_at = asyncio.get_running_loop().time()

    async def _wait_until(self, end: float, when: Expression | None = None) -> bool:
        """Let time pass and check the expectations; true when `when` became true before the end."""
        while True:
            await self._check_expectations()
            if when is not None and await self._is_true(when):
                return True
            rest = end - self.now
            if rest <= 1e-9:
                return False
            await asyncio.sleep(min(self._interval, rest))

    async def _wait_for_expectations(self) -> None:
        ends = [tracked.until for tracked in self._expectations if tracked.until is not None]
        await self._wait_until(max([parse_seconds(self._story.lasts), *ends]))
        while any(tracked.is_pending for tracked in self._expectations):
            await self._wait_until(self.now + self._interval)

    def _expect(self, expectation: Expectation, default: float | None) -> None:
        names = {step.name for step in self._story.timeline if step.name}
        self._expectations.append(TrackedExpectation(expectation, default, names))

    async def _check_expectations(self) -> None:
        await self._report_changes()
        for tracked in self._expectations:
            if tracked.applies(self.now):
                await self._check(tracked)
        total = len(self._story.timeline) + sum(bool(tracked.expectation.that) for tracked in self._expectations)
        met = sum(tracked.is_met for tracked in self._expectations)
        self._progress((self._steps_done + met) / max(1, total))

    async def _check(self, tracked: TrackedExpectation) -> None:
        expectation = tracked.expectation
        tracked.was_checked = True
        find = await self._snapshot(tracked.expression)
        holds = tracked.expression.is_true(find)
        if expectation.that:
            if holds:
                tracked.is_met = True
                self._write_line(self.now, f"✓ {expectation.that}")
            elif self.now >= tracked.deadline:
                await self._fail(tracked, find)
        elif holds is bool(expectation.never):
            await self._fail(tracked, find)

    async def _fail(self, tracked: TrackedExpectation, find: FindObjects) -> None:
        facts = values_of(tracked.expression, find)
        if tracked.expectation.that:
            facts.append(f"waited from {clock_text(tracked.start or 0.0)} to {clock_text(self.now)}")
        if tracked.expectation.because:
            facts.append(f"reason for the expectation: {tracked.expectation.because}")
        raise StoryFailed(str(tracked.expectation), self.now, [*facts, *(await self._report.state())])

    async def _snapshot(self, expression: Expression) -> FindObjects:
        """The objects that the expression refers to, read once."""
        objects = {ref: await self.objects.find(ref) for ref in expression.patterns}
        return objects.__getitem__

    async def _is_true(self, expression: Expression) -> bool:
        return expression.is_true(await self._snapshot(expression))

    def _client(self, where: str) -> Client:
        """Members are read directly, so that a story sees them while the control plane cannot reach them."""
        if where and where not in self._fleet.world.members:
            raise InputError(f"there is no member {where}")
        return LocalClient(self._fleet.world[where].server) if where else self._fleet.client

    async def _run_step(self, number: int, step: StoryStep) -> None:
        if step.at is not None:
            await self._wait_until(parse_seconds(step.at))
        elif step.after is not None:
            await self._wait_until(self.now + parse_seconds(step.after))
        elif step.when:
            expression = Expression(step.when)
            if not await self._wait_until(self.now + parse_seconds(step.timeout), expression):
                facts = values_of(expression, await self._snapshot(expression))
                message = f"step {number} did not start: its condition did not become true: {step.when}"
                raise StoryFailed(message, self.now, [*facts, *(await self._report.state())])
        if step.say:
            self._write_line(self.now, step.say)
        for tracked in self._expectations:
            tracked.step_reached(step.name, self.now)
        try:
            await self._actions.run(step, self._wait_until)
        except ApiError as fault:
            raise StoryFailed(f"step {number} could not be applied: {fault}", self.now, []) from fault
        for expectation in step.expect:
            self._expect(expectation, self.now)
        if step.wait is not None:
            await self._wait_until(self.now + parse_seconds(step.wait))

    async def _report_changes(self, *, quiet: bool = False) -> None:
        """Write a line for everything that changed since the last call."""
        current = {name: text async for name, text in self._report.summary()}
        for name in [*current, *(name for name in self._reported if name not in current)]:
            text = current.get(name, "is deleted")
            if self._reported.get(name) != text and not quiet:
                self._write_line(self.now, f"{name} {text}")
        self._reported = current


def values_of(expression: Expression, find: FindObjects) -> list[str]:
    """One line for every term of the expression: its text and its value."""
    return [f"{text} is {short_text(value)}" for text, value in expression.term_values(find)]
