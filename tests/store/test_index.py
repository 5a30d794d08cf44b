import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import Expired, TimedOut
from trimtab.store.index import LogRow, MemoryIndex, Retention
from trimtab.store.records import StoredEntry, StoreEvent

paths = st.lists(st.text("ab/é", max_size=3), max_size=7).map(lambda parts: "/" + "/".join(parts))


@given(st.sets(paths, max_size=30), paths)
def test_resources_in_prefix_order_hold_all_keys_in_order(keys: set[str], prefix: str) -> None:
    index = MemoryIndex(Retention())
    index.apply([StoreEvent(key, n + 2, StoredEntry(key, b"", n + 2, n + 2), None) for n, key in enumerate(keys)])
    expected = sorted(key for key in keys if key.startswith(prefix))
    assert [entry.key for entry in index.page(prefix, None, None, None).entries] == expected
    assert index.count(prefix) == len(expected)


def test_compaction_returns_rows_that_only_dropped_history_needs() -> None:
    index = MemoryIndex(Retention())
    index.restore(
        [
            LogRow(2, "/a", b"1", 2),
            LogRow(3, "/b", b"", 3),
            LogRow(4, "/a", b"2", 2),
            LogRow(5, "/b", None, 0),
            LogRow(6, "/a", b"3", 2),
        ],
        compacted=0,
    )
    assert sorted(index.compact(5)) == [2, 3, 5]  # replaced, replaced, and the deletion itself
    assert index.compact(5) == []
    assert index.compact(6) == [4]


def test_empty_and_unwatched_resource_is_removed() -> None:
    index = MemoryIndex(Retention())
    key = "/registry/example.com/widgets/default/a"
    entry = StoredEntry(key, b"", 2, 2)
    index.apply([StoreEvent(key, 2, entry, None), StoreEvent(key, 3, None, entry)])
    index.compact(3)
    assert not index._resources


def test_restored_history_is_trimmed_to_the_limits() -> None:
    index = MemoryIndex(Retention(revisions=16))
    index.restore([LogRow(n, "/a", b"", 2) for n in range(2, 102)], compacted=0)
    assert len(index.trim(0.0)) == 83
    assert index.compacted == 85


@given(
    st.lists(st.sampled_from(["/registry/a/b/c", "/registry/a/d/c", "/other/e/f/g"]), max_size=12), st.integers(1, 13)
)
def test_events_of_several_resources_are_in_order_however_far_behind(keys: list[str], after: int) -> None:
    index = MemoryIndex(Retention(cached_events=4))
    for n, key in enumerate(keys):
        entry = StoredEntry(key, b"", n + 2, n + 2)
        index.apply([StoreEvent(key, n + 2, entry, index.entries.get(key))])
    events, _ = index.events_since("/registry/", after, limit=100)
    assert [event.revision for event in events] == [
        n + 2 for n, key in enumerate(keys) if key.startswith("/registry/") and n + 2 > after
    ]


def index_with_updates(*keys: str) -> MemoryIndex:
    """An index in which these keys were written, from revision 2 on."""
    index = MemoryIndex(Retention())
    for revision, key in enumerate(keys, 2):
        entry = StoredEntry(key, b"", revision, revision)
        index.apply([StoreEvent(key, revision, entry, index.entries.get(key))])
    return index


WIDGET, GADGET = "/registry/example.com/widgets/default/a", "/registry/example.com/gadgets/default/a"


@pytest.mark.parametrize("prefix", ["/registry/example.com/widgets/", "/registry/"])
def test_watch_resumes_at_the_last_dropped_event_and_not_before(prefix: str) -> None:
    index = index_with_updates(WIDGET, WIDGET, WIDGET, WIDGET)
    index.compact(4)
    events, _ = index.events_since(prefix, 4, limit=10)
    assert [event.revision for event in events] == [5]
    with pytest.raises(Expired, match=r"too old resource version: 3 \(4\)"):
        index.events_since(prefix, 3, limit=10)


def test_slow_watch_of_a_quiet_resource_misses_nothing_when_others_are_compacted() -> None:
    index = index_with_updates(GADGET, WIDGET, WIDGET)
    index.compact(3)
    events, revision = index.events_since("/registry/example.com/gadgets/", 2, limit=10)
    assert (list(events), revision) == ([], 4)


def test_list_reads_no_compacted_and_no_future_revision() -> None:
    index = index_with_updates(WIDGET, WIDGET, WIDGET)
    index.compact(3)
    assert [entry.mod_revision for entry in index.page("/registry/", None, None, 3).entries] == [3]
    with pytest.raises(Expired):
        index.page("/registry/", None, None, 2)
    with pytest.raises(TimedOut, match="Too large resource version: 5, current: 4"):
        index.page("/registry/", None, None, 5)


def test_revision_of_a_cut_off_batch_is_that_of_its_last_event() -> None:
    index = index_with_updates(WIDGET, WIDGET, WIDGET)
    events, revision = index.events_since("/registry/example.com/widgets/", 1, limit=2)
    assert ([event.revision for event in events], revision) == ([2, 3], 3)


def test_encodings_are_kept_for_a_limited_number_of_bytes() -> None:
    index = MemoryIndex(Retention(cached_events=10, cached_bytes=1000))
    sizes = [10, 10, 600, 300, 200, 5000]
    events = []
    for revision, size in enumerate(sizes, start=2):
        key = f"/registry/core/configmaps/default/{revision}"
        events.append(StoreEvent(key, revision, StoredEntry(key, b"x" * size, revision, revision), None, {"json": b""}))
    index.apply(events[:5])
    assert [event.memo is not None for event in events[:5]] == [False, False, False, True, True]
    index.apply(events[5:])
    assert [event.memo is not None for event in events] == [False] * 5 + [True]


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_watch_of_everything_misses_nothing_when_few_events_keep_their_encodings(kept: int) -> None:
    index = MemoryIndex(Retention(cached_events=kept))
    for revision, key in enumerate((WIDGET, GADGET, WIDGET, GADGET), 2):
        index.apply([StoreEvent(key, revision, StoredEntry(key, b"", revision, revision), index.entries.get(key))])
    for after in range(1, 6):
        events, _ = index.events_since("/registry/", after, limit=10)
        assert [event.revision for event in events] == list(range(after + 1, 6))


def test_values_beyond_the_limit_are_compressed_oldest_first_and_read_as_before() -> None:
    value = b'{"metadata":{"name":"web"},"spec":{"text":"' + b"0123456789" * 30 + b'"}}'
    index = MemoryIndex(Retention(cached_events=1, plain_bytes=3 * len(value)))
    keys = [f"/registry/apps/deployments/default/web-{number}" for number in range(6)]
    for revision, key in enumerate(keys, 2):
        index.apply([StoreEvent(key, revision, StoredEntry(key, value, revision, revision), None)])
    sizes = [index.entries[key].held_size for key in keys]
    assert max(sizes[1:3]) < len(value) / 4
    assert sizes[3:] == [len(value)] * 3
    assert [entry.value for entry in index.page("/registry/", None, None, None).entries] == [value] * 6
    assert [event.value for event in index.events_since("/registry/", 1, 10)[0]] == [value] * 6


def test_a_restored_log_holds_no_more_plain_values_than_the_limit() -> None:
    value = b"0123456789" * 100
    index = MemoryIndex(Retention(cached_events=1, plain_bytes=2 * len(value)))
    keys = [f"/registry/apps/deployments/default/web-{number}" for number in range(5)]
    index.restore([LogRow(number, key, value, number) for number, key in enumerate(keys, 2)], 6)
    assert [index.entries[key].held_size == len(value) for key in keys] == [False, False, False, True, True]
    assert [index.entries[key].value for key in keys] == [value] * 5


@pytest.mark.parametrize("prefix", ["/registry/", "/registry/example.com/widgets/"])
def test_watch_that_is_up_to_date_stays_at_its_revision(prefix: str) -> None:
    index = index_with_updates("/registry/example.com/widgets/a")
    assert list(index.events_since(prefix, 2, limit=10)[0]) == []
    assert index.events_since(prefix, 2, limit=10)[1] == 2
    assert index.events_since(prefix, 9, limit=10)[1] == 9
    assert [event.revision for event in index.events_since(prefix, 1, limit=10)[0]] == [2]
