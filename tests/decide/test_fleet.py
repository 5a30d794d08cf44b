from datetime import timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.clock import EPOCH
from trimtab.decide.fleet import ExternalValue, Fleet


class Thing(NamedTuple):
    name: str
    size: int = 0
    load: int = 0


def sizes(fleet: Fleet[Thing], computed: list[str] | None = None) -> list[int]:
    def size(thing: Thing) -> int:
        if computed is not None:
            computed.append(thing.name)
        return thing.size

    return [int(n) for n in fleet.column("size", lambda: size)]


def test_columns_are_in_the_order_of_names() -> None:
    fleet = Fleet.of([Thing("b", 2), Thing("a", 1)])
    assert fleet.names == ["a", "b"]
    assert sizes(fleet) == [1, 2]


def test_only_changed_targets_are_computed_again() -> None:
    computed: list[str] = []
    fleet = Fleet.of([Thing("a", 1), Thing("b", 2), Thing("c", 3)])
    sizes(fleet, computed)
    computed.clear()
    assert sizes(fleet.change([Thing("b", 20)]), computed) == [1, 20, 3]
    assert computed == ["b"]


def test_what_does_not_depend_on_the_load_is_not_computed_again_when_the_load_changes() -> None:
    computed: list[str] = []

    def size(thing: Thing) -> int:
        computed.append(thing.name)
        return thing.size

    def current(fleet: Fleet[Thing]) -> tuple[list[int], list[int]]:
        without_load = fleet.column("size", lambda: size, ignores_load=True)
        with_load = fleet.column("load", lambda: lambda thing: thing.size + thing.load)
        return without_load.tolist(), with_load.tolist()

    fleet = Fleet.of([Thing("a", 1), Thing("b", 2)])
    current(fleet)
    computed.clear()
    fleet = fleet.change_load(Thing("a", 1, 10))
    assert current(fleet) == ([1, 2], [11, 2])
    fleet = fleet.change_load(Thing("a", 1, 20)).change_load(Thing("b", 2, 30))
    assert current(fleet) == ([1, 2], [21, 32])
    assert computed == []
    fleet = fleet.change([Thing("b", 5, 30)]).change_load(Thing("a", 1, 40))
    assert current(fleet) == ([1, 5], [41, 35])
    assert computed == ["b"]


def test_added_and_removed_targets_move_the_others_without_computing_them() -> None:
    computed: list[str] = []
    fleet = Fleet.of([Thing("b", 2), Thing("d", 4)])
    sizes(fleet, computed)
    computed.clear()
    later = fleet.change([Thing("a", 1), Thing("e", 5)], removed=["b"])
    assert (later.names, sizes(later, computed)) == (["a", "d", "e"], [1, 4, 5])
    assert computed == ["a", "e"]


def test_an_older_fleet_still_returns_its_own_values() -> None:
    fleet = Fleet.of([Thing("a", 1)])
    sizes(fleet)
    newer = fleet.change([Thing("a", 9)])
    assert sizes(newer) == [9]
    assert sizes(fleet) == [1]
    assert sizes(newer) == [9]


def test_an_external_value_is_ignored_after_it_expires() -> None:
    soon = EPOCH + timedelta(seconds=5)
    fleet = Fleet.of([Thing("a"), Thing("b")], now=EPOCH).with_external_values(
        "score", {"a": ExternalValue(7, until=soon), "b": ExternalValue(8)}
    )

    def scores(all_clusters: Fleet[Thing]) -> list[int]:
        array = all_clusters.column(
            "score", lambda: lambda thing: all_clusters.external_value("score", thing.name) or 0
        )
        return [int(n) for n in array]

    assert scores(fleet) == [7, 8]
    assert scores(fleet.at(soon)) == [7, 8]
    assert scores(fleet.at(soon + timedelta(seconds=1))) == [0, 8]


def test_what_was_computed_stays_valid_while_no_external_value_expires() -> None:
    later = EPOCH + timedelta(seconds=5)
    fleet = Fleet.of([Thing("a", 1), Thing("b", 2)], now=EPOCH).with_external_values(
        "score", {"a": ExternalValue(7, until=later)}
    )
    assert fleet.compute_once("sum", lambda: sum(sizes(fleet))) == 3
    assert fleet.at(later).compute_once("sum", lambda: -1) == 3
    assert fleet.at(later + timedelta(seconds=1)).compute_once("sum", lambda: -1) == -1


def test_reservations_follow_their_targets() -> None:
    fleet = Fleet.of([Thing("b"), Thing("c")])
    columns = [fleet.index["c"]]
    reserved = fleet.reserve(columns, {"pods": 3}).change([Thing("a")])
    assert reserved.reserved["pods"].tolist() == [0, 0, 3]
    assert reserved.without_reservations().reserved == {}


steps = st.lists(
    st.tuples(
        st.lists(st.builds(Thing, st.sampled_from("abcdefgh"), st.integers(0, 99), st.integers(0, 99)), max_size=4),
        st.lists(st.sampled_from("abcdefgh"), max_size=3),
        st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 99), max_size=3),
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(steps, st.data())
def test_updated_arrays_equal_newly_computed_arrays(
    changes: list[tuple[list[Thing], list[str], dict[str, int]]], data: st.DataObject
) -> None:
    fleet: Fleet[Thing] = Fleet.of([])
    check_arrays(fleet)
    for come, go, loads in changes:
        fleet = fleet.change(come, removed=go)
        for name in loads.keys() & fleet.index.keys():
            fleet = fleet.change_load(fleet.targets[fleet.index[name]]._replace(load=loads[name]))
        if data.draw(st.booleans()):
            check_arrays(fleet)
    check_arrays(fleet)


def check_arrays(fleet: Fleet[Thing]) -> None:
    assert sizes(fleet) == [thing.size for thing in fleet]
    assert fleet.column("load", lambda: lambda thing: thing.load).tolist() == [thing.load for thing in fleet]
    fixed = fleet.column("fixed", lambda: lambda thing: thing.size, ignores_load=True)
    assert fixed.tolist() == [thing.size for thing in fleet]


def test_number_of_small_arrays_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.decide.fleet._MAX_BYTES", 100_000)
    fleet = Fleet.of([Thing("a", 1)])
    for number in range(2000):
        fleet.column(("size", number), lambda: lambda thing: thing.size)
    assert len(fleet.cache.entries) < 200, "an entry costs more than the bytes of its array"


def test_size_of_the_cache_is_zero_when_all_arrays_are_dropped() -> None:
    fleet = Fleet.of([Thing("a", 1)])
    sizes(fleet)
    later = fleet.change([Thing("b", 2)])
    sizes(later)
    assert later.cache.bytes > 0
    for key in list(later.cache.entries):
        later.cache.drop(key)
    assert later.cache.bytes == 0
