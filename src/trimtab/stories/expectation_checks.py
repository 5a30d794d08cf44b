"""Checks the expectations of a story: when each of them applies, whether it is met, and why it fails."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from trimtab.stories.expectations import Expression, FindObjects
from trimtab.stories.objects import StoryObjects
from trimtab.stories.report import FleetReport, StoryFailed, WriteLine, clock_text, short_text
from trimtab.stories.story import Expectation, parse_seconds

DEFAULT_WITHIN = 60.0


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


class ExpectationChecks:
    """The expectations of one run of a story, those of its steps included."""

    def __init__(
        self,
        objects: StoryObjects,
        report: FleetReport,
        steps: AbstractSet[str],
        *,
        now: Callable[[], float],
        write_line: WriteLine,
    ) -> None:
        self._objects = objects
        self._report = report
        self._steps = steps
        """Names of the steps, with which a period may start or end."""
        self._now = now
        self._write_line = write_line
        self._tracked: list[TrackedExpectation] = []

    def add(self, expectation: Expectation, start: float | None) -> None:
        """Check this from now on; `start` is the start of its period unless it names another. None: after all steps."""
        self._tracked.append(TrackedExpectation(expectation, start, self._steps))

    def step_reached(self, step: str) -> None:
        for tracked in self._tracked:
            tracked.step_reached(step, self._now())

    def all_steps_done(self) -> None:
        """Start what applies only after the last step."""
        for tracked in self._tracked:
            if tracked.start is None:
                tracked.start = self._now()

    @property
    def ends(self) -> list[float]:
        """The ends of the periods that are known."""
        return [tracked.until for tracked in self._tracked if tracked.until is not None]

    @property
    def are_pending(self) -> bool:
        """Whether the story cannot end yet."""
        return any(tracked.is_pending for tracked in self._tracked)

    @property
    def met_count(self) -> int:
        return sum(tracked.is_met for tracked in self._tracked)

    @property
    def goal_count(self) -> int:
        """How many expectations must be met once for the story to end."""
        return sum(bool(tracked.expectation.that) for tracked in self._tracked)

    async def check(self) -> None:
        """Check everything that applies now. Raises `StoryFailed`."""
        for tracked in self._tracked:
            if tracked.applies(self._now()):
                await self._check(tracked)

    def demand_all_checked(self) -> None:
        """Fail if an expectation never applied: the story does not test what it says."""
        for tracked in self._tracked:
            if not tracked.was_checked:
                fact = f"it applies from {clock_text(tracked.start or 0.0)}, and the story ended before"
                raise StoryFailed(f"never checked: {tracked.expectation}", self._now(), [fact])

    async def _check(self, tracked: TrackedExpectation) -> None:
        expectation = tracked.expectation
        tracked.was_checked = True
        find = await read_objects(self._objects, tracked.expression)
        holds = tracked.expression.is_true(find)
        if expectation.that:
            if holds:
                tracked.is_met = True
                self._write_line(self._now(), f"✓ {expectation.that}")
            elif self._now() >= tracked.deadline:
                await self._fail(tracked, find)
        elif holds is bool(expectation.never):
            await self._fail(tracked, find)

    async def _fail(self, tracked: TrackedExpectation, find: FindObjects) -> None:
        facts = values_of(tracked.expression, find)
        if tracked.expectation.that:
            facts.append(f"waited from {clock_text(tracked.start or 0.0)} to {clock_text(self._now())}")
        if tracked.expectation.because:
            facts.append(f"reason for the expectation: {tracked.expectation.because}")
        raise StoryFailed(str(tracked.expectation), self._now(), [*facts, *(await self._report.state())])


async def read_objects(objects: StoryObjects, expression: Expression) -> FindObjects:
    """The objects that the expression refers to, read once."""
    found = {ref: await objects.find(ref) for ref in expression.patterns}
    return found.__getitem__


def values_of(expression: Expression, find: FindObjects) -> list[str]:
    """One line for every term of the expression: its text and its value."""
    return [f"{text} is {short_text(value)}" for text, value in expression.term_values(find)]
