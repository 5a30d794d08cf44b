from datetime import timedelta
from typing import Any, cast

import msgspec

from plugins.clusters import ask, member
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import AddOnPlacementScore
from trimtab.api.value import Key
from trimtab.clock import EPOCH
from trimtab.decide.capacity import allocatable
from trimtab.decide.karmada import RESERVED_FOR, reserve_moves
from trimtab.decide.request import Ask
from trimtab.runtime.cache import Cache
from trimtab.runtime.fleet_cache import FleetKeeper

WEB = Key("resourcebindings.work.karmada.io", "default", "web-deployment")
ASKED = ask(replicas=4, replicaRequirements={"resourceRequest": {"cpu": "1"}})


class Seen:
    """An entry of a cache, as far as a listener looks at it."""

    def __init__(self, typed: Cluster | AddOnPlacementScore) -> None:
        self.typed = typed
        self.name = (typed.metadata.namespace, typed.metadata.name)


class Tables:
    """A cache that says what a test tells it to say."""

    def __init__(self) -> None:
        self._listeners: dict[type, Any] = {}

    def table_of(self, type_: type) -> "Tables":
        self._asked = type_
        return self

    def listen(self, listener: Any) -> None:
        self._listeners[self._asked] = listener

    def says(self, old: Any, new: Any) -> None:
        known = old or new
        self._listeners[type(known)](old and Seen(old), new and Seen(new))


def keeper() -> tuple[Tables, dict[Any, Any], FleetKeeper]:
    tables, memory = Tables(), dict[Any, Any]()
    return tables, memory, FleetKeeper(cast("Cache", tables), memory)


def give(keep: FleetKeeper, memory: dict[Any, Any], to: Ask, arriving: tuple[tuple[str, int], ...]) -> None:
    """Leave the room taken, as a batch of the scheduler does."""
    fleet = reserve_moves([(to, arriving)], keep.at(EPOCH, {WEB: to}))
    memory["fleet", "given away"] = (fleet, [(WEB, to, arriving)])


def test_the_picture_follows_clusters_as_they_come_change_and_go() -> None:
    tables, _, keep = keeper()
    tables.says(None, member("m1", 5))
    tables.says(None, member("m2", 5))
    assert keep.at(EPOCH).names == ["m1", "m2"]
    tables.says(member("m1", 5), member("m1", 9))
    tables.says(member("m2", 5), None)
    picture = keep.at(EPOCH)
    assert picture.names == ["m1"]
    assert allocatable(ASKED, picture).tolist() == [9]


def test_a_score_sheet_is_known_by_the_cluster_in_whose_namespace_it_lives() -> None:
    tables, _, keep = keeper()
    tables.says(None, member("m1"))
    body = {"metadata": {"namespace": "m1", "name": "carbon"}, "status": {"scores": [{"name": "green", "value": 7}]}}
    sheet = msgspec.convert(body, AddOnPlacementScore, strict=False)
    tables.says(None, sheet)
    assert keep.at(EPOCH).about("AddOnPlacementScore/carbon", "m1") == {"green": 7}
    tables.says(sheet, None)
    assert keep.at(EPOCH).about("AddOnPlacementScore/carbon", "m1") is None


def test_room_that_was_given_away_is_free_again_when_the_reservation_lapses() -> None:
    tables, memory, keep = keeper()
    tables.says(None, member("m1", 10))
    give(keep, memory, ASKED, (("m1", 4),))
    assert allocatable(ASKED, keep.at(EPOCH)).tolist() == [6]
    assert memory["fleet", "next lapse"] == EPOCH + RESERVED_FOR
    assert allocatable(ASKED, keep.at(EPOCH + RESERVED_FOR - timedelta(seconds=1))).tolist() == [6]
    assert allocatable(ASKED, keep.at(EPOCH + RESERVED_FOR)).tolist() == [10]
    assert memory["fleet", "next lapse"] is None


def test_a_reservation_lapses_in_time_although_nobody_looked_since_the_room_was_given_away() -> None:
    tables, memory, keep = keeper()
    tables.says(None, member("m1", 10))
    give(keep, memory, ASKED, (("m1", 4),))
    assert allocatable(ASKED, keep.at(EPOCH + RESERVED_FOR)).tolist() == [10]


def test_who_asks_again_because_nothing_was_written_finds_its_own_room_and_has_it_once() -> None:
    tables, memory, keep = keeper()
    tables.says(None, member("m1", 10))
    give(keep, memory, ASKED, (("m1", 4),))
    assert allocatable(ASKED, keep.at(EPOCH, {WEB: ASKED})).tolist() == [10]
    give(keep, memory, ASKED, (("m1", 4),))
    give(keep, memory, ASKED, (("m1", 4),))
    assert allocatable(ASKED, keep.at(EPOCH)).tolist() == [6]


def test_what_was_written_stays_reserved_while_the_same_is_decided_again() -> None:
    tables, memory, keep = keeper()
    tables.says(None, member("m1", 10))
    give(keep, memory, ASKED, (("m1", 4),))
    placed = msgspec.structs.replace(ASKED, placed=(("m1", 4),))
    assert allocatable(ASKED, keep.at(EPOCH, {WEB: placed})).tolist() == [6]
