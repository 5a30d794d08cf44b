"""Fair queues over seats: which of the waiting requests starts next.

The problem: one caller with many connections must not delay the others. Three rules decide.

1. A priority level has a number of seats, its share of all seats of the server. A request takes one seat or, when it is
   expensive, several, from its start to its end. Seats that other levels may lend and do not use can be borrowed.
2. Every flow of a level (a user, as a rule) has its own queue. The next request comes from the flow that has received
   the least so far (start-time fair queuing): a flow is charged for the seats of each request it starts, and a flow that
   was idle does not collect credit.
3. Between levels the same rule holds, with charges divided by the shares of the level.

Kubernetes deals flows to a fixed number of queues by shuffle sharding, because it keeps queues for flows that have no
requests. Here a queue is dropped when its flow is not ahead of others, so every flow can have its own; the limits of a hand of queues
(`handSize` x `queueLengthLimit`) are the limit of the flow. All of this is pure: time is a parameter.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal

from trimtab.server.flowcontrol.classification import Flow, LevelLimits

SLOW_LIMIT = 16
"""How many requests of one flow may wait for their slow client at a time: bodies to receive, responses to send."""
_MOST_IDLE = 1000
Verdict = Literal["", "queue-full", "concurrency-limit", "time-out", "cancelled"]
"""Why a request was rejected, in the words of the metric of Kubernetes; empty when it was not."""


class Ticket:
    """One request of a flow, from its arrival to its end."""

    __slots__ = ("arrived", "flow", "level", "queue", "seats", "state")

    def __init__(self, flow: Flow, seats: int = 1, arrived: float = 0.0) -> None:
        self.flow = flow
        self.seats = seats
        """Seats it takes; 0 for long-running requests, which only wait for their turn."""
        self.arrived = arrived
        self.state: Literal["new", "waiting", "executing", "slow", "finished"] = "new"
        self.level: PriorityLevel | None = None
        self.queue: FlowQueue | None = None


class FlowQueue:
    """The waiting requests of one flow."""

    __slots__ = ("key", "present", "received", "slow", "waiting")

    def __init__(self, key: tuple[str, str], received: float) -> None:
        self.key = key
        self.waiting: deque[Ticket] = deque()
        self.received = received
        """The charges so far; a new flow starts at the level's current value."""
        self.present = 0
        """Requests of the flow that wait or are in progress; the queue is dropped when there are none."""
        self.slow = 0
        """Requests that wait for their client."""


class PriorityLevel:
    """The seats and queues of one priority level."""

    def __init__(self, limits: LevelLimits) -> None:
        self.limits = limits
        self.nominal_seats = 0
        self.seats_in_use = 0
        self.executing = 0
        self.waiting = 0
        self.seats_waiting = 0
        self.received = 0.0
        self._served = 0.0
        """What the flow that was served last had received before; a flow that was idle starts from here."""
        self._most_received = 0.0
        self.flows: dict[tuple[str, str], FlowQueue] = {}
        self._idle: dict[tuple[str, str], FlowQueue] = {}
        """Flows without requests that have received more than others that wait: they must not start anew."""

    @property
    def protected_seats(self) -> int:
        """Seats that the level does not lend."""
        return self.nominal_seats - self.nominal_seats * self.limits.lendable_percent // 100

    @property
    def lendable_now(self) -> int:
        return max(0, self.nominal_seats - max(self.seats_in_use, self.protected_seats))

    @property
    def borrowed_seats(self) -> int:
        return max(0, self.seats_in_use - self.nominal_seats)

    @property
    def most_seats(self) -> int:
        """The seats it may use when all others are idle."""
        percent = self.limits.borrowing_percent
        return self.nominal_seats + (math.ceil(self.nominal_seats * percent / 100) if percent is not None else 1 << 30)

    def queue_of(self, flow: Flow) -> FlowQueue:
        key = (flow.schema, flow.distinguisher)
        queue = self.flows.get(key)
        if queue is None:
            queue = self._idle.pop(key) if key in self._idle else FlowQueue(key, self._served)
            self.flows[key] = queue
        return queue

    def enqueue(self, ticket: Ticket) -> None:
        queue = self.queue_of(ticket.flow)
        if not queue.waiting:
            queue.received = max(queue.received, self._served)
        queue.waiting.append(ticket)
        queue.present += 1
        self.waiting += 1
        self.seats_waiting += ticket.seats
        ticket.level, ticket.queue, ticket.state = self, queue, "waiting"

    def first_waiting(self) -> Ticket | None:
        """The request that starts next if there is a seat."""
        ready = (queue for queue in self.flows.values() if queue.waiting and queue.slow < SLOW_LIMIT)
        chosen = min(ready, key=lambda queue: queue.received, default=None)
        return chosen.waiting[0] if chosen is not None else None

    def start(self, ticket: Ticket) -> None:
        queue = ticket.queue
        assert queue is not None
        self._served = queue.received
        queue.received += max(1, ticket.seats)
        self._most_received = max(self._most_received, queue.received)
        self._take_from_queue(ticket)
        if not self.waiting:  # nobody competes: what was received so far does not matter any more
            self._served = self._most_received
            self._idle.clear()
        ticket.state = "executing"
        self.executing += 1
        self.seats_in_use += ticket.seats

    def _take_from_queue(self, ticket: Ticket) -> None:
        assert ticket.queue is not None
        if ticket.queue.waiting[0] is ticket:
            ticket.queue.waiting.popleft()
        else:
            ticket.queue.waiting.remove(ticket)
        self.waiting -= 1
        self.seats_waiting -= ticket.seats

    def end(self, ticket: Ticket) -> None:
        """Take the request out, wherever it is."""
        queue = ticket.queue
        assert queue is not None
        if ticket.state == "waiting":
            self._take_from_queue(ticket)
        elif ticket.state == "executing":
            self.executing -= 1
            self.seats_in_use -= ticket.seats
        elif ticket.state == "slow":
            queue.slow -= 1
        ticket.state = "finished"
        queue.present -= 1
        if not queue.present:
            del self.flows[queue.key]
            if queue.received > self._served:
                self._idle[queue.key] = queue
                if len(self._idle) > _MOST_IDLE:
                    del self._idle[next(iter(self._idle))]


class FairQueues:
    """All priority levels of a server."""

    def __init__(self, total_seats: int, levels: Iterable[LevelLimits]) -> None:
        self._total = total_seats
        self.levels: dict[str, PriorityLevel] = {}
        self._served = 0.0
        self.waiting = 0
        self.configure(levels)

    def configure(self, levels: Iterable[LevelLimits]) -> None:
        """Use other limits; requests that wait or run keep their places."""
        wanted = {limits.name: limits for limits in levels}
        for name, limits in wanted.items():
            self.levels.setdefault(name, PriorityLevel(limits)).limits = limits
        for name in [name for name in self.levels if name not in wanted]:
            if self.levels[name].flows:  # it ends when its last request ends
                self.levels[name].limits = self.levels[name].limits._replace(shares=1)
            else:
                del self.levels[name]
        shares = sum(level.limits.shares for level in self.levels.values()) or 1
        for level in self.levels.values():
            level.nominal_seats = math.ceil(self._total * level.limits.shares / shares)

    def start_alone(self, ticket: Ticket) -> bool:
        """Start a request that arrives while none waits, if there is a seat; nobody competes, so it costs nothing."""
        level = self.levels[ticket.flow.level]
        ticket.seats = seats = min(ticket.seats, max(1, level.nominal_seats // 2))
        if self.waiting or not self._has_seats(level, seats):
            return False
        queue = level.queue_of(ticket.flow)
        if queue.slow >= SLOW_LIMIT:
            return False
        queue.present += 1
        ticket.level, ticket.queue, ticket.state = level, queue, "executing"
        level.executing += 1
        level.seats_in_use += seats
        return True

    def arrive(self, ticket: Ticket) -> Verdict:
        """Put a request into its queue, or say why it is rejected."""
        level = self.levels[ticket.flow.level]
        limits = level.limits
        ticket.seats = min(ticket.seats, max(1, level.nominal_seats // 2))
        if ticket.seats and not limits.queues:
            if level.seats_in_use + level.seats_waiting + ticket.seats > level.nominal_seats:
                return "concurrency-limit"
        elif ticket.seats:
            queue = level.flows.get((ticket.flow.schema, ticket.flow.distinguisher))
            if level.waiting >= limits.total_queue_length or (
                queue is not None and len(queue.waiting) >= limits.flow_queue_length
            ):
                return "queue-full"
        if not level.waiting:
            level.received = max(level.received, self._served)
        level.enqueue(ticket)
        self.waiting += 1
        return ""

    def start_next(self) -> Ticket | None:
        """Start the request whose turn it is; None when no request waits for which there is a seat."""
        chosen: tuple[PriorityLevel, Ticket] | None = None
        for level in self.levels.values():
            if not level.waiting or (chosen is not None and chosen[0].received <= level.received):
                continue
            first = level.first_waiting()
            if first is not None and self._has_seats(level, first.seats):
                chosen = level, first
        if chosen is None:
            return None
        level, ticket = chosen
        self._served = level.received
        level.received += max(1, ticket.seats) / max(1, level.limits.shares)
        level.start(ticket)
        self.waiting -= 1
        return ticket

    def _has_seats(self, level: PriorityLevel, seats: int) -> bool:
        if not seats or level.seats_in_use + seats <= level.nominal_seats:
            return True
        if not level.limits.queues or level.seats_in_use + seats > level.most_seats:
            return False
        lendable = sum(other.lendable_now for other in self.levels.values() if other is not level)
        borrowed = sum(other.borrowed_seats for other in self.levels.values() if other is not level)
        return level.seats_in_use + seats - level.nominal_seats + borrowed <= lendable

    def hand_over(self, ticket: Ticket) -> None:
        """Free the seats of a request that now waits for its client; its flow may have only a few of these."""
        if ticket.state == "executing" and ticket.level is not None and ticket.queue is not None:
            ticket.level.executing -= 1
            ticket.level.seats_in_use -= ticket.seats
            ticket.queue.slow += 1
            ticket.state = "slow"

    def end(self, ticket: Ticket) -> None:
        """The request is answered or its client has gone; safe to call again."""
        if ticket.level is None or ticket.state in ("new", "finished"):
            return
        if ticket.state == "waiting":
            self.waiting -= 1
        ticket.level.end(ticket)

    def overdue(self, before: float) -> Iterator[Ticket]:
        """The waiting requests that arrived before this time; the caller ends them."""
        for level in self.levels.values():
            for queue in level.flows.values():
                for ticket in queue.waiting:
                    if ticket.arrived >= before:
                        break
                    yield ticket
