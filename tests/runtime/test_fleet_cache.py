from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from plugins.clusters import member, placement_request
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Key
from trimtab.clock import EPOCH
from trimtab.controllers.contract import CapacityReservation, ReserveCapacity
from trimtab.decide.capacity import estimate_free_replicas
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import RESERVATION_TTL
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
