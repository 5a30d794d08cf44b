from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.clusters import member, placement_request
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Key
from trimtab.clock import EPOCH
from trimtab.controllers.contract import CapacityReservation, ReserveCapacity
from trimtab.decide.capacity import estimate_free_replicas
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import RESERVATION_TTL, reserve_moves
from trimtab.decide.request import PlacementRequest
from trimtab.runtime.cache import Cache
from trimtab.runtime.fleet_cache import FleetCache, fleet_from

WEB = Key("resourcebindings.work.karmada.io", "default", "web-deployment")
REQUEST = placement_request(replicas=4, replicaRequirements={"resourceRequest": {"cpu": "1"}})


class FakeEntry:
    """The part of a cache entry that listeners read."""

    def __init__(self, typed: Cluster | AddOnPlacementScore | ResourceBinding) -> None:
        self.typed = typed
        self.name = (typed.metadata.namespace, typed.metadata.name)


class FakeCache:
    """A cache whose changes the test triggers."""

    def __init__(self) -> None:
        self._listeners: dict[type, Any] = {}

    def table_of(self, type_: type) -> "FakeCache":
        self._type = type_
        return self

    def add_listener(self, listener: Any) -> None:
        self._listeners[self._type] = listener

    def notify(self, old: Any, new: Any) -> None:
        known = old or new
        self._listeners[type(known)](old and FakeEntry(old), new and FakeEntry(new))


def new_fleet_cache() -> tuple[FakeCache, FleetCache]:
    tables = FakeCache()
    return tables, fleet_from(cast("Cache", tables))


def reserve(fleet_cache: FleetCache, request: PlacementRequest, arriving: tuple[tuple[str, int], ...]) -> None:
    """Reserve the capacity, as a batch of the scheduler does."""
    fleet_cache.fleet_for({WEB: request}, EPOCH)
    fleet_cache.reserve(ReserveCapacity(EPOCH, (CapacityReservation(WEB, request, arriving),)))


def free_replicas(fleet: Fleet[Cluster]) -> list[int]:
    return estimate_free_replicas(REQUEST, fleet).tolist()


def test_deciding_a_request_changes_no_reservation_before_the_effect() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    assert free_replicas(fleet_cache.fleet_for({WEB: REQUEST}, EPOCH)) == [10]
    assert free_replicas(fleet_cache.at(EPOCH)) == [6], "the decision before may still be written"
    fleet_cache.reserve(ReserveCapacity(EPOCH, (CapacityReservation(WEB, REQUEST, ()),)))
    assert free_replicas(fleet_cache.at(EPOCH)) == [10]


def test_reservations_of_two_batches_add_up() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    other = Key("resourcebindings.work.karmada.io", "default", "other-deployment")
    for binding in (WEB, other):
        fleet_cache.fleet_for({binding: REQUEST}, EPOCH)
    for binding in (WEB, other):
        fleet_cache.reserve(ReserveCapacity(EPOCH, (CapacityReservation(binding, REQUEST, (("m1", 4),)),)))
    assert free_replicas(fleet_cache.at(EPOCH)) == [2]


def test_fleet_follows_created_changed_and_deleted_clusters() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 5))
    tables.notify(None, member("m2", 5))
    assert fleet_cache.at(EPOCH).names == ["m1", "m2"]
    tables.notify(member("m1", 5), member("m1", 9))
    tables.notify(member("m2", 5), None)
    fleet = fleet_cache.at(EPOCH)
    assert fleet.names == ["m1"]
    assert free_replicas(fleet) == [9]


def test_score_belongs_to_the_cluster_of_its_namespace() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1"))
    body = {"metadata": {"namespace": "m1", "name": "carbon"}, "status": {"scores": [{"name": "green", "value": 7}]}}
    score = msgspec.convert(body, AddOnPlacementScore, strict=False)
    tables.notify(None, score)
    assert fleet_cache.at(EPOCH).external_value("AddOnPlacementScore/carbon", "m1") == {"green": 7}
    tables.notify(score, None)
    assert fleet_cache.at(EPOCH).external_value("AddOnPlacementScore/carbon", "m1") is None


def test_reserved_capacity_is_free_when_the_reservation_expires() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    assert free_replicas(fleet_cache.at(EPOCH)) == [6]
    assert fleet_cache.next_lapse == EPOCH + RESERVATION_TTL
    assert free_replicas(fleet_cache.at(EPOCH + RESERVATION_TTL - timedelta(seconds=1))) == [6]
    assert free_replicas(fleet_cache.at(EPOCH + RESERVATION_TTL)) == [10]
    assert fleet_cache.next_lapse is None


def test_reservation_expires_in_time_without_an_access_in_between() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    assert free_replicas(fleet_cache.at(EPOCH + RESERVATION_TTL)) == [10]


def test_request_decided_again_without_a_write_finds_its_own_capacity_free() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    assert free_replicas(fleet_cache.fleet_for({WEB: REQUEST}, EPOCH)) == [10]
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    assert free_replicas(fleet_cache.at(EPOCH)) == [6]


def test_written_decision_stays_reserved_when_decided_again() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    placed = msgspec.structs.replace(REQUEST, placed=(("m1", 4),))
    assert free_replicas(fleet_cache.fleet_for({WEB: placed}, EPOCH)) == [6]


def test_unwritten_decision_that_adds_to_a_cluster_in_use_finds_its_own_capacity_free() -> None:
    """Otherwise a move that waits for a budget or an approval would be decided differently again and again."""
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    placed = msgspec.structs.replace(REQUEST, placed=(("m1", 4),))
    reserve(fleet_cache, placed, (("m1", 1),))
    assert free_replicas(fleet_cache.fleet_for({WEB: placed}, EPOCH)) == [10]
    written = msgspec.structs.replace(REQUEST, placed=(("m1", 5),))
    assert free_replicas(fleet_cache.fleet_for({WEB: written}, EPOCH)) == [9]


def in_flight(health: str = "Unhealthy", *clusters: str) -> ResourceBinding:
    body = {
        "metadata": {"namespace": WEB.namespace, "name": WEB.name},
        "spec": {"clusters": [{"name": name, "replicas": 4} for name in clusters or ("m1",)]},
        "status": {"aggregatedStatus": [{"clusterName": "m1", "health": health}]},
    }
    return msgspec.convert(body, ResourceBinding, strict=False)


def reserved_until_healthy() -> tuple[FakeCache, FleetCache]:
    tables = FakeCache()
    fleet_cache = fleet_from(cast("Cache", tables), follows_health=True)
    tables.notify(None, member("m1", 10))
    fleet_cache.fleet_for({WEB: REQUEST}, EPOCH)
    arriving = CapacityReservation(WEB, REQUEST, (("m1", 4),))
    fleet_cache.reserve(ReserveCapacity(EPOCH, (arriving,), until_healthy=True))
    return tables, fleet_cache


def test_reservation_lasts_until_the_workload_becomes_healthy() -> None:
    tables, fleet_cache = reserved_until_healthy()
    tables.notify(in_flight(), in_flight())
    assert free_replicas(fleet_cache.at(EPOCH + RESERVATION_TTL)) == [6]
    tables.notify(in_flight(), in_flight("Healthy"))
    assert free_replicas(fleet_cache.at(EPOCH + RESERVATION_TTL)) == [10]
    assert fleet_cache.next_lapse is None


def test_reservation_of_a_healthy_workload_that_grows_lasts_until_it_is_healthy_again() -> None:
    tables, fleet_cache = reserved_until_healthy()
    tables.notify(in_flight("Healthy"), in_flight("Healthy"))
    assert free_replicas(fleet_cache.at(EPOCH)) == [6]


@pytest.mark.parametrize("after", [None, in_flight("Unhealthy", "m2")])
def test_reservation_ends_when_the_workload_is_deleted_or_moved(after: ResourceBinding | None) -> None:
    tables, fleet_cache = reserved_until_healthy()
    tables.notify(in_flight(), after)
    assert free_replicas(fleet_cache.at(EPOCH)) == [10]


def test_reservation_of_a_workload_that_never_becomes_healthy_lapses() -> None:
    _, fleet_cache = reserved_until_healthy()
    assert free_replicas(fleet_cache.at(EPOCH + timedelta(minutes=5, seconds=-1))) == [6]
    assert free_replicas(fleet_cache.at(EPOCH + timedelta(minutes=5))) == [10]


def test_reservations_until_healthy_of_one_workload_add_up() -> None:
    tables, fleet_cache = reserved_until_healthy()
    placed = msgspec.structs.replace(REQUEST, placed=(("m1", 4),))
    more = CapacityReservation(WEB, placed, (("m1", 2),))
    fleet_cache.reserve(ReserveCapacity(EPOCH, (more,), until_healthy=True))
    assert free_replicas(fleet_cache.at(EPOCH)) == [4]
    tables.notify(in_flight(), in_flight("Healthy"))
    assert free_replicas(fleet_cache.at(EPOCH)) == [10]


def test_reservation_expires_in_time_after_the_clock_was_set_back() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    past = EPOCH - timedelta(days=100)
    assert free_replicas(fleet_cache.at(past)) == [6]
    assert fleet_cache.next_lapse == past + RESERVATION_TTL
    assert free_replicas(fleet_cache.at(past + RESERVATION_TTL)) == [10]


def test_reservations_of_a_cluster_that_joins_again_count() -> None:
    tables, fleet_cache = new_fleet_cache()
    tables.notify(None, member("m1", 10))
    reserve(fleet_cache, REQUEST, (("m1", 4),))
    tables.notify(member("m1", 10), None)
    assert free_replicas(fleet_cache.at(EPOCH)) == []
    tables.notify(None, member("m1", 10))
    assert free_replicas(fleet_cache.at(EPOCH)) == [6]
    assert free_replicas(fleet_cache.at(EPOCH + RESERVATION_TTL)) == [10]


def bindings(*numbers: int) -> list[Key]:
    return [Key(WEB.kind, "default", f"web-{number}") for number in numbers]


STEP = st.one_of(
    st.tuples(
        st.just("reserve"),
        st.sampled_from(bindings(0, 1, 2)),
        st.sampled_from(["1", "2"]),
        st.lists(st.tuples(st.sampled_from(["m1", "m2"]), st.integers(1, 3)), max_size=2, unique_by=lambda one: one[0]),
        st.booleans(),
    ),
    st.tuples(st.just("wait"), st.integers(1, 40)),
    st.tuples(st.just("leave"), st.sampled_from(["m1", "m2"])),
    st.tuples(st.just("join"), st.sampled_from(["m1", "m2"])),
    st.tuples(st.just("healthy"), st.sampled_from(bindings(0, 1, 2)), st.sampled_from(["m1", "m2"])),
)


@given(st.lists(STEP, max_size=12))
def test_the_running_sum_is_what_the_reservations_in_force_add_up_to(steps: list[Any]) -> None:
    tables = FakeCache()
    fleet_cache = fleet_from(cast("Cache", tables), follows_health=True)
    present = {name: member(name, 1000) for name in ("m1", "m2")}
    for cluster in present.values():
        tables.notify(None, cluster)
    now = EPOCH
    for step in steps:
        if step[0] == "reserve":
            _, key, cpu, arriving, until_healthy = step
            request = placement_request(replicas=4, replicaRequirements={"resourceRequest": {"cpu": cpu}})
            fleet_cache.fleet_for({key: request}, now)
            effect = CapacityReservation(key, request, tuple(arriving))
            fleet_cache.reserve(ReserveCapacity(now, (effect,), until_healthy=until_healthy))
        elif step[0] == "wait":
            now += timedelta(seconds=step[1])
        elif step[0] == "leave" and (gone := present.pop(step[1], None)) is not None:
            tables.notify(gone, None)
        elif step[0] == "join" and step[1] not in present:
            present[step[1]] = member(step[1], 1000)
            tables.notify(None, present[step[1]])
        elif step[0] == "healthy":
            before, after = in_flight("Unhealthy", step[2]), in_flight("Healthy", step[2])
            named = [one.but(metadata=one.metadata.but(name=step[1].name)) for one in (before, after)]
            tables.notify(*named)
        fleet = fleet_cache.at(now)
        in_force = [(one.request, one.arriving) for one in fleet_cache._reservations.values()]
        added_up = reserve_moves(in_force, fleet.without_reservations())
        kept = {resource: amounts.tolist() for resource, amounts in fleet.reserved.items() if amounts.any()}
        assert kept == {resource: amounts.tolist() for resource, amounts in added_up.reserved.items() if amounts.any()}
