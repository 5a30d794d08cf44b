import msgspec
import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.value import Raw
from trimtab.client.client import resource_of
from trimtab.runtime.cache import Table
from trimtab.runtime.decoded_entries import DecodedEntries

WORKS = resource_of(kind_of(Work))


def work(name: str, revision: int = 1, **spec: object) -> Raw:
    metadata = {"namespace": "es", "name": name, "resourceVersion": str(revision), "managedFields": [{"manager": "x"}]}
    return {"apiVersion": WORKS.api_version, "kind": "Work", "metadata": metadata, "spec": {"workload": {}, **spec}}


def table_with(limit: int, count: int) -> tuple[Table, DecodedEntries]:
    decoded = DecodedEntries(limit)
    table = Table(WORKS, decoded)
    for number in range(count):
        table.put(work(f"w{number}"))
    return table, decoded


def packed_names(table: Table) -> list[str]:
    return [name for (_, name), entry in table.entries.items() if "raw" not in vars_of(entry)]


def vars_of(entry: object) -> set[str]:
    """The attributes that are set, without decoding any."""
    found = set()
    for slot in type(entry).__slots__:  # type: ignore[attr-defined]
        try:
            object.__getattribute__(entry, slot)
        except AttributeError:
            continue
        found.add(slot)
    return found


def test_the_oldest_objects_beyond_the_limit_are_packed_and_read_as_before() -> None:
    table, decoded = table_with(2, 5)
    assert packed_names(table) == ["w0", "w1", "w2"]
    expected = work("w0")
    del expected["metadata"]["managedFields"]
    entry = table.entries["es", "w0"]
    assert entry.raw == expected
    assert msgspec.to_builtins(entry.typed.metadata)["name"] == "w0"
    assert len(decoded) == 2


def test_an_object_that_is_read_becomes_one_of_the_newest() -> None:
    table, _ = table_with(2, 3)
    assert table.entries["es", "w0"].raw["metadata"]["name"] == "w0"
    assert packed_names(table) == ["w1"]


def test_replaced_and_deleted_objects_take_no_place() -> None:
    table, decoded = table_with(4, 2)
    for revision in range(2, 6):
        table.put(work("w0", revision))
    assert (len(decoded), packed_names(table)) == (2, [])
    table.drop(("es", "w0"), "9")
    assert len(decoded) == 1


def test_listeners_get_the_state_before_of_a_packed_object() -> None:
    table, _ = table_with(1, 3)
    seen: list[tuple[str, str]] = []
    table.add_listener(
        lambda old, new: seen.append((old.raw["metadata"]["resourceVersion"], new.revision)) if old and new else None
    )
    table.put(work("w0", 7))
    assert seen == [("1", "7")]


def test_an_object_that_json_cannot_hold_stays_decoded() -> None:
    decoded = DecodedEntries(1)
    table = Table(WORKS, decoded)
    table.put(work("huge", number=2**70))
    table.put(work("other"))
    assert table.entries["es", "huge"].raw["spec"]["number"] == 2**70


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_the_limit_changes_nothing_that_can_be_read(limit: int) -> None:
    table, _ = table_with(limit, 9)
    assert [table.entries[name].raw["metadata"]["name"] for name in table.names("es")] == [f"w{n}" for n in range(9)]
    assert [table.entries[name].typed.name for name in table.names("es")] == [f"w{n}" for n in range(9)]


def test_clusters_stay_decoded_however_many_objects_change() -> None:
    clusters = resource_of(kind_of(Cluster))
    decoded = DecodedEntries(1)
    table = Table(clusters, decoded)
    for name in ("a", "b", "c"):
        table.put({"apiVersion": clusters.api_version, "kind": "Cluster", "metadata": {"name": name}})
    assert (packed_names(table), len(decoded)) == ([], 0)


def binding(name: str, weights: int, revision: int = 1, before: Raw | None = None) -> Raw:
    uid = before["metadata"]["uid"] if before is not None else f"uid-{name}"
    metadata = {"namespace": "es", "name": name, "uid": uid, "resourceVersion": str(revision)}
    listed = [{"targetCluster": {"clusterNames": [f"member{n}"]}, "weight": 1} for n in range(weights)]
    placement = {"replicaScheduling": {"weightPreference": {"staticWeightList": listed}}}
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": metadata,
        "spec": {"placement": placement},
    }


def test_a_large_object_counts_as_many() -> None:
    decoded = DecodedEntries(70)
    table = Table(resource_of(kind_of(ResourceBinding)), decoded)
    for number in range(5):
        table.put(binding(f"small{number}", 3))
    table.put(first := binding("large0", 1000))
    assert packed_names(table) == []
    table.put(binding("large0", 1000, revision=2, before=first))  # it weighs as much as the one that it was made of
    table.put(binding("large1", 1000))
    assert packed_names(table) == [*(f"small{number}" for number in range(5)), "large0"]
    assert len(decoded) == 1
