"""Admits requests to seats, fairly and a few per turn of the event loop.

The problem: the server and the controllers of this process share one event loop, so a limit on concurrent requests does not
share the CPU: 500 requests that arrive together would run back to back, and everything else would wait for all of them.
Therefore a request that is not exempt also needs a turn. In every turn of the loop at most one waiting request starts; then
everything else that is ready runs: exempt requests, commits, reconciles of controllers. A request that arrives when nothing
waits starts at once, without waiting for a turn of its own.

A loop without idle time is late for everybody, so while exempt callers are active the others get only a share of the time:
after the turn of a request the next one waits in proportion to what that turn took, and no request starts between a write
and its commit. When no exempt caller is active, the others may use all of the time.

What else callers cause takes turns as well, a few at a time: rejections, because a client that retries at once would
otherwise use the CPU with rejections; responses of writes, because those of one commit are ready together; and events for
watchers, because one write can concern hundreds of them.

Exempt callers never wait for others, but their writes may cause more work than the controllers of this process finish, and
then everything they wrote would be late. So their writes pause while the controllers lag, for a part of the lag and
never long (`wait_for_controllers`). Which request starts is decided by `fair_queues`; which flow a request
belongs to, by `classification`.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from trimtab.errors import TooManyRequests
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import User
from trimtab.server.flowcontrol.classification import Flow
from trimtab.server.flowcontrol.classifier import Classifier, Headers, ReadObjects
from trimtab.server.flowcontrol.fair_queues import FairQueues, Ticket, Verdict
from trimtab.server.flowcontrol.flow_metrics import FlowMetrics

RETRY_SECONDS = 1
_SWEEP_SECONDS = 1.0
_SHARE = 0.1
"""The share of the time of the event loop for requests that wait while exempt callers are active."""
_EXEMPT_SECONDS = 0.1
"""How long an exempt caller counts as active after its last request."""
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.001, 0.1
"""Timers have a resolution of a millisecond; shorter pauses are added up."""
ANSWERS_PER_TURN = 4
"""Rejections, responses of writes and events for watchers in one turn."""
TOLERATED_LAG_SECONDS = 0.1
"""How late the controllers may be before writes of exempt callers pause, and ..."""
PAUSE_PER_LAG, MAX_WRITE_PAUSE_SECONDS = 0.25, 0.1
"""... the seconds that a write pauses for each further second, and at most."""
FREE_WATCHERS = 20
"""A flow with at most so many watches gets every event at once."""
WATCH_EVENTS_PER_SECOND = 200.0
"""How often the further watches of a flow wake up, all together."""


class FlowLimits(NamedTuple):
    """Settings of flow control."""

    max_requests: int = 40
    """Requests that read, and ..."""
    max_mutating_requests: int = 20
    """... requests that write; the sum is the number of seats of the server."""
    max_wait_seconds: float = 15.0
    """How long a request waits for a seat before it is rejected."""

    @property
    def seats(self) -> int:
        return self.max_requests + self.max_mutating_requests


class Rejected(TooManyRequests):
    """No seat was free for the request, and its queue was full or it waited too long."""

    def __init__(self, why: Verdict, headers: Headers) -> None:
        super().__init__("Too many requests, please try again later.", retry_after=RETRY_SECONDS)
        self.why = why
        self.headers = headers


class Admission:
    """The permission of one request to run; `end` it when the request is answered."""

    __slots__ = ("_controller", "_ended", "flow", "headers", "ticket")

    def __init__(self, controller: "FlowController", flow: Flow, ticket: Ticket | None, headers: Headers) -> None:
        self._controller = controller
        self._ended = False
        self.flow = flow
        self.ticket = ticket
        """None for an exempt request."""
        self.headers = headers

    @property
    def is_exempt(self) -> bool:
        return self.ticket is None

    def wait_for_client(self) -> None:
        """Free the seats: from now on the request waits for its client."""
        if self.ticket is not None and not self._ended:
            self._controller.hand_over(self.ticket)

    async def wait_to_answer(self) -> None:
        """Wait for a turn to send the response; exempt requests do not wait."""
        if self.ticket is not None:
            await self._controller.pace()

    async def wait_for_turn(self) -> None:
        """Wait for the next turn of the event loop; a request that is not exempt waits for one of its own."""
        if self.ticket is None:
            await asyncio.sleep(0)
        else:
            await self._controller.wait_for_turn()

    def in_turns(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks of a stream, each after it waited for its turn; those of exempt requests do not wait."""
        return chunks if self.ticket is None else self._take_turns(chunks)

    async def _take_turns(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        watchers = self._controller.watchers
        key = (self.flow.schema, self.flow.distinguisher)
        watchers[key] += 1
        is_first = True
        try:
            await self._controller.pace(ANSWERS_PER_TURN)  # the first chunk may be a whole collection
            async for chunk in chunks:
                if not is_first:
                    await self._controller.pace()
                is_first = False
                yield chunk
                if pause := watch_pause(watchers[key]):
                    await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - spreads the watchers
        finally:
            watchers[key] -= 1
            if not watchers[key]:
                del watchers[key]

    def end(self) -> None:
        """Free the seats; safe to call again."""
        if not self._ended:
            self._ended = True
            self._controller.end(self)


def watch_pause(watchers: int) -> float:
    """Seconds that each watcher of a flow waits after an event; later events are then sent together."""
    return max(0, watchers - FREE_WATCHERS) / WATCH_EVENTS_PER_SECOND


class FlowController:
    """Flow control of one process: all its API servers that are served by one listener share it."""

    def __init__(
        self,
        limits: FlowLimits = FlowLimits(),  # noqa: B008 - a frozen value
        read_objects: ReadObjects = lambda: ((), ()),
        is_commit_due: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits = limits
        self._is_commit_due = is_commit_due
        """Whether writes wait for turns of the loop; requests then start after the commit has begun."""
        self._classifier = Classifier(read_objects)
        self.queues = FairQueues(limits.seats, self._classifier.configuration.levels.values())
        self.metrics = FlowMetrics()
        self._waiting: dict[Ticket, asyncio.Future[Verdict]] = {}
        self._answers: deque[tuple[int, asyncio.Future[None]]] = deque()
        """What waits for a turn to be sent, with the part of the turn it takes."""
        self._answered = 0
        """How many answers were sent in this turn."""
        self._turn_scheduled = False
        self._turn_used = False
        self._pausing = False
        self._pause = 0.0
        self._turn_began = 0.0
        self._exempt_until = -1.0
        self._sweep_scheduled = False
        self.watchers: Counter[tuple[str, str]] = Counter()
        """Open watches by flow."""
        self._controllers_lag: Callable[[], float] = lambda: 0.0

    # configuration

    def invalidate(self) -> None:
        """Read the configuration again before the next request."""
        self._classifier.invalidate()

    def _refresh(self) -> None:
        self.queues.configure(self._classifier.configuration.levels.values())

    # requests

    def classify(self, user: User, action: Action) -> Flow:
        """The flow of a request."""
        if not self._classifier.is_current:
            self._refresh()
        return self._classifier.classify(user, action)

    def is_exempt(self, flow: Flow) -> bool:
        return self.queues.levels[flow.level].limits.exempt

    def admit_exempt(self, flow: Flow) -> Admission:
        """Admit a request of an exempt flow, which never waits."""
        self.metrics.count_start(flow, None)
        self.note_exempt()
        return Admission(self, flow, None, self._classifier.headers_of(flow))

    def follow_controllers(self, lag: Callable[[], float]) -> None:
        """Let writes of exempt callers pause by the lag, in seconds, of the controllers that share the event loop."""
        self._controllers_lag = lag

    async def wait_for_controllers(self) -> None:
        """Pause a write of an exempt caller while the controllers lag."""
        if (excess := self._controllers_lag() - TOLERATED_LAG_SECONDS) > 0:
            await asyncio.sleep(min(MAX_WRITE_PAUSE_SECONDS, excess * PAUSE_PER_LAG))

    async def admit(self, flow: Flow, seats: int = 1) -> Admission:
        """Wait until the request may run; `Rejected` when it may not."""
        loop = asyncio.get_running_loop()
        ticket = Ticket(flow, seats, loop.time())
        if not self._turn_scheduled and self.queues.start_alone(ticket):
            self._turn_used = True
            self._schedule_turn()
            self.metrics.count_start(flow, 0.0)
            return Admission(self, flow, ticket, self._classifier.headers_of(flow))
        verdict = self.queues.arrive(ticket) or await self._wait(ticket, loop)
        if verdict:
            self.metrics.count_rejection(flow, verdict, loop.time() - ticket.arrived)
            await self.pace()
            raise Rejected(verdict, self._classifier.headers_of(flow))
        self.metrics.count_start(flow, loop.time() - ticket.arrived)
        return Admission(self, flow, ticket, self._classifier.headers_of(flow))

    async def _wait(self, ticket: Ticket, loop: asyncio.AbstractEventLoop) -> Verdict:
        self._schedule_turn()
        if not self._sweep_scheduled:
            self._sweep_scheduled = True
            loop.call_later(_SWEEP_SECONDS, self._reject_overdue)
        waiting: asyncio.Future[Verdict] = loop.create_future()
        self._waiting[ticket] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            self.metrics.count_rejection(ticket.flow, "cancelled", loop.time() - ticket.arrived)
            self.queues.end(ticket)
            self._schedule_turn()
            raise
        finally:
            self._waiting.pop(ticket, None)

    async def pace(self, part: int = 1) -> None:
        """Wait for a turn, if this turn has sent enough: for what needs no seat but costs time."""
        if self._answered + part <= ANSWERS_PER_TURN and not self._answers and not self._pausing:
            self._answered += part
            self._schedule_turn()
            return
        await self._queue_for_turn(part)

    async def wait_for_turn(self) -> None:
        """Wait for a whole turn, in which no other answer is sent."""
        await self._queue_for_turn(ANSWERS_PER_TURN)

    async def _queue_for_turn(self, part: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers.append((part, turn))
        self._schedule_turn()
        await turn

    def note_exempt(self) -> None:
        """An exempt caller is active: the others wait longer between their turns."""
        self._exempt_until = asyncio.get_running_loop().time() + _EXEMPT_SECONDS

    def hand_over(self, ticket: Ticket) -> None:
        self.queues.hand_over(ticket)
        self._schedule_turn()

    def end(self, admission: Admission) -> None:
        self.metrics.count_end(admission.flow)
        if admission.ticket is not None:
            self.queues.end(admission.ticket)
            if self.queues.waiting:
                self._schedule_turn()

    # turns

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            loop = asyncio.get_running_loop()
            self._turn_began = loop.time()
            loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Start the next request and send the next answers, or do that later if the last turn took long."""
        self._turn_scheduled = self._pausing = False
        loop = asyncio.get_running_loop()
        now = loop.time()
        is_exempt_active = now < self._exempt_until
        if self._turn_used or self._answered:
            self._turn_used, self._answered = False, 0
            if is_exempt_active:
                self._pause += (now - self._turn_began) * (1 / _SHARE - 1)
            if self._pause >= _MIN_PAUSE_SECONDS:
                pause, self._pause = min(_MAX_PAUSE_SECONDS, self._pause), 0.0
                self._turn_scheduled = self._pausing = True
                loop.call_later(pause, self._take_turn)
                return
        if is_exempt_active and self._is_commit_due():
            self._turn_scheduled = True
            loop.call_soon(self._take_turn)
            return
        while self._answers and self._answered + self._answers[0][0] <= ANSWERS_PER_TURN:
            part, turn = self._answers.popleft()
            if not turn.done():
                turn.set_result(None)
                self._answered += part
        ticket = self.queues.start_next() if self.queues.waiting else None
        if ticket is not None:
            self._answer(ticket, "")
            self._turn_used = True
        if self._turn_used or self._answered:
            self._schedule_turn()

    def _answer(self, ticket: Ticket, verdict: Verdict) -> None:
        waiting = self._waiting.get(ticket)
        if waiting is None or waiting.done():
            self.queues.end(ticket)
        else:
            waiting.set_result(verdict)

    def _reject_overdue(self) -> None:
        self._sweep_scheduled = False
        loop = asyncio.get_running_loop()
        for ticket in list(self.queues.overdue(loop.time() - self._limits.max_wait_seconds)):
            self.queues.end(ticket)
            self._answer(ticket, "time-out")
        if self.queues.waiting:
            self._sweep_scheduled = True
            loop.call_later(_SWEEP_SECONDS, self._reject_overdue)
