"""Which waiting request starts next."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trimtab.server.flowcontrol.classification import Flow, LevelLimits
from trimtab.server.flowcontrol.fair_queues import SLOW_LIMIT, FairQueues, Ticket


def flow(user: str, level: str = "low") -> Flow:
    return Flow("schema", "", level, user)


def queues(seats: int = 2, **levels: LevelLimits) -> FairQueues:
    return FairQueues(seats, levels.values() or [LevelLimits("low")])


def serve(fair: FairQueues, count: int) -> Counter[str]:
    """How many requests of each flow are served, when every flow sends its next one as soon as one is answered."""
    served: Counter[str] = Counter()
    for _ in range(count):
        ticket = fair.start_next()
        assert ticket is not None
        fair.end(ticket)
        served[ticket.flow.distinguisher] += 1
        assert not fair.arrive(Ticket(ticket.flow, ticket.seats))
    return served


def test_flow_with_many_requests_gets_no_more_than_flow_with_one() -> None:
    fair = queues()
    for _ in range(300):
        assert not fair.arrive(Ticket(flow("ann")))
    assert not fair.arrive(Ticket(flow("bob")))
    assert serve(fair, 100) == {"ann": 50, "bob": 50}


def test_flow_pays_for_the_seats_of_its_requests() -> None:
    fair = queues(20)
    for _ in range(50):
        fair.arrive(Ticket(flow("lists"), 10))
        fair.arrive(Ticket(flow("gets"), 1))
    assert serve(fair, 110) == {"lists": 10, "gets": 100}


def test_idle_flow_collects_no_credit() -> None:
    fair = queues()
    for user in ("ann", "bob"):
        fair.arrive(Ticket(flow(user)))
    first = fair.start_next()
    assert first is not None
    fair.end(first)
    other = fair.start_next()
    assert other is not None
    for _ in range(100):
        fair.arrive(Ticket(flow("ann")))
    fair.end(other)
    for _ in range(50):
        ticket = fair.start_next()
        assert ticket is not None
        fair.end(ticket)
    fair.arrive(Ticket(flow("bob")))
    fair.arrive(Ticket(flow("bob")))
    assert serve(fair, 20) == {"ann": 10, "bob": 10}


def test_levels_share_turns_by_their_shares() -> None:
    fair = queues(12, high=LevelLimits("high", shares=30), low=LevelLimits("low", shares=10))
    for _ in range(100):
        fair.arrive(Ticket(flow("h", "high")))
        fair.arrive(Ticket(flow("l")))
    assert serve(fair, 80) == {"h": 60, "l": 20}


def test_no_request_starts_without_a_seat() -> None:
    fair = queues(2)
    tickets = [Ticket(flow("ann")) for _ in range(3)]
    for ticket in tickets:
        fair.arrive(ticket)
    assert (fair.start_next(), fair.start_next(), fair.start_next()) == (tickets[0], tickets[1], None)
    fair.end(tickets[0])
    assert fair.start_next() is tickets[2]


def test_request_that_arrives_alone_starts_if_there_is_a_seat() -> None:
    fair = queues(1)
    first, second = Ticket(flow("ann")), Ticket(flow("bob"))
    assert fair.start_alone(first)
    assert not fair.start_alone(second)
    fair.end(first)
    assert not fair.arrive(Ticket(flow("ann")))
    assert not fair.start_alone(second)  # another one waits


def test_full_queue_of_a_flow_rejects_that_flow_only() -> None:
    limits = LevelLimits("low", flow_queue_length=3, total_queue_length=5)
    fair = queues(1, low=limits)
    assert [fair.arrive(Ticket(flow("ann"))) for _ in range(4)] == ["", "", "", "queue-full"]
    assert [fair.arrive(Ticket(flow("bob"))) for _ in range(3)] == ["", "", "queue-full"]  # the level is full, too


def test_level_without_queues_rejects_when_its_seats_are_taken() -> None:
    fair = queues(2, low=LevelLimits("low", queues=False))
    assert [fair.arrive(Ticket(flow("ann"))) for _ in range(3)] == ["", "", "concurrency-limit"]


def test_lendable_seats_are_borrowed_and_returned() -> None:
    levels = {
        "low": LevelLimits("low", shares=10),
        "rich": LevelLimits("rich", shares=10, lendable_percent=50),
        "mean": LevelLimits("mean", shares=10, lendable_percent=0),
    }
    fair = queues(12, **levels)
    tickets = [Ticket(flow("ann")) for _ in range(20)]
    for ticket in tickets:
        fair.arrive(ticket)
    running = list(iter(fair.start_next, None))
    assert len(running) == 6  # its own four, and half of the four of the level that lends
    fair.arrive(Ticket(flow("bob", "rich")))
    assert fair.start_next() is not None  # a level always gets its own seats
    fair.end(running[0])
    fair.end(running[1])
    assert fair.start_next() is not None
    fair.levels["low"].limits = levels["low"]._replace(borrowing_percent=0)
    assert fair.start_next() is None


def test_slow_clients_free_their_seats_but_block_their_flow() -> None:
    fair = queues(1)
    for _ in range(SLOW_LIMIT + 1):
        fair.arrive(Ticket(flow("slow")))
    running = []
    for _ in range(SLOW_LIMIT):
        ticket = fair.start_next()
        assert ticket is not None
        fair.hand_over(ticket)
        running.append(ticket)
    assert fair.start_next() is None
    fair.arrive(Ticket(flow("bob")))
    served = fair.start_next()
    assert served is not None
    assert served.flow.distinguisher == "bob"
    fair.end(served)
    fair.end(running[0])
    assert fair.start_next() is not None


def test_removed_level_serves_its_waiting_requests() -> None:
    fair = queues(4, low=LevelLimits("low"), high=LevelLimits("high"))
    fair.arrive(Ticket(flow("ann")))
    fair.configure([LevelLimits("high")])
    ticket = fair.start_next()
    assert ticket is not None
    fair.end(ticket)
    fair.configure([LevelLimits("high")])
    assert set(fair.levels) == {"high"}


def test_overdue_requests_are_the_oldest_of_every_flow() -> None:
    fair = queues()
    for number in range(4):
        fair.arrive(Ticket(flow("ann"), arrived=float(number)))
        fair.arrive(Ticket(flow("bob"), arrived=float(number)))
    assert sorted(ticket.arrived for ticket in fair.overdue(2.0)) == [0.0, 0.0, 1.0, 1.0]


steps = st.lists(
    st.tuples(st.sampled_from(["arrive", "alone", "start", "slow", "end"]), st.integers(0, 3), st.integers(0, 4)),
    max_size=80,
)


@given(steps)
def test_counters_are_exact_after_any_sequence(sequence: list[tuple[str, int, int]]) -> None:
    fair = queues(6, low=LevelLimits("low", lendable_percent=50), high=LevelLimits("high", flow_queue_length=5))
    present: list[Ticket] = []
    for step, user, seats in sequence:
        if step == "arrive":
            ticket = Ticket(flow(f"u{user}", "low" if user % 2 else "high"), seats)
            if not fair.arrive(ticket):
                present.append(ticket)
        elif step == "alone":
            ticket = Ticket(flow(f"u{user}", "low" if user % 2 else "high"), seats)
            if fair.start_alone(ticket):
                present.append(ticket)
        elif step == "start":
            fair.start_next()
        elif present and step == "slow":
            fair.hand_over(present[seats % len(present)])
        elif present:
            fair.end(present.pop(seats % len(present)))
    for ticket in present:
        fair.end(ticket)
        fair.end(ticket)
    assert fair.waiting == 0
    for level in fair.levels.values():
        assert (level.waiting, level.seats_waiting, level.seats_in_use, level.executing) == (0, 0, 0, 0)
        assert level.flows == {}
