"""The room that was given away and is not reported yet."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, cluster, placement

from trimtab.api.kind import key_of, kind_of, wire
from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster, ResourceSummary
from trimtab.api.kinds.work import Binding
from trimtab.controllers.schedule import gained
from trimtab.decide.ask import ask_of
from trimtab.decide.karmada import RESERVED_FOR, decide_all
from trimtab.plugins import filters, scores
from trimtab.registry import discover
from trimtab.runtime.cache import Entry
from trimtab.runtime.fleet import FleetKeeper
from trimtab.runtime.memory import Memory

SECOND = timedelta(seconds=1)


class Tables:
    """A cache that only knows who listens to which table."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def table_of(self, type_: type) -> "Tables":
        return self

    def listen(self, listener: Any) -> None:
        self.listeners.append(listener)


def keeper(memory: Memory) -> FleetKeeper:
    discover(filters)
    discover(scores)
    tables = Tables()
    kept = FleetKeeper(tables, memory)  # type: ignore[arg-type]
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    found = cluster("m1")
    found = found.but(
        status=found.status.but(
            api_enablements=enabled, resource_summary=ResourceSummary(allocatable={"pods": "6", "cpu": "8"})
        )
    )
    tables.listeners[0](None, Entry(wire(found), kind_of(Cluster)))
    return kept


def four(placed: dict[str, int]) -> Binding:
    scheduling = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
    subject = binding(clusters=placed, placement=placement(replicaScheduling=scheduling))
    return subject.but(spec=subject.spec.but(replicas=4))


def given(kept: FleetKeeper, memory: Memory, subject: Binding, after: timedelta = timedelta()) -> None:
    """Decide about it and leave the room taken, as a batch of the scheduler does."""
    asks = {key_of(subject): ask_of(subject)}
    decisions, fleet = decide_all(list(asks.values()), kept.at(NOON + after, asks))
    gains = tuple((key, d.ask, gained(d)) for key, d in zip(asks, decisions, strict=True))
    memory.keep("fleet", "given away", (fleet, gains))


def reserved(kept: FleetKeeper, after: timedelta = timedelta()) -> int:
    amounts = kept.at(NOON + after).reserved
    return int(amounts["pods"][0]) if amounts else 0


def test_room_is_reserved_until_its_time_is_over() -> None:
    memory = Memory()
    kept = keeper(memory)
    given(kept, memory, four({}))
    assert reserved(kept) == 4
    assert memory["fleet", "next lapse"] == NOON + RESERVED_FOR
    assert reserved(kept, RESERVED_FOR) == 0
    assert memory["fleet", "next lapse"] is None


def test_who_asks_again_because_nothing_was_written_finds_its_own_room_and_has_it_once() -> None:
    memory = Memory()
    kept = keeper(memory)
    given(kept, memory, four({}))
    given(kept, memory, four({}), SECOND)
    assert reserved(kept, SECOND) == 4


def test_what_was_written_stays_reserved_while_the_same_is_decided_again() -> None:
    memory = Memory()
    kept = keeper(memory)
    given(kept, memory, four({}))
    given(kept, memory, four({"m1": 4}), SECOND)
    assert reserved(kept, SECOND) == 4
