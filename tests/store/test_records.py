import pytest

from trimtab.store.records import StoredEntry, StoreEvent

OLD, NEW = StoredEntry("/a", b"old", 2, 2), StoredEntry("/a", b"new", 3, 2)


@pytest.mark.parametrize(
    ("event", "type_", "value", "prev_value", "last_value"),
    [
        (StoreEvent("/a", 2, OLD, None), "ADDED", b"old", None, b"old"),
        (StoreEvent("/a", 3, NEW, OLD), "MODIFIED", b"new", b"old", b"new"),
        (StoreEvent("/a", 4, None, NEW), "DELETED", None, b"new", b"new"),
    ],
)
def test_event_type_and_values_follow_from_its_entries(
    event: StoreEvent, type_: str, value: bytes | None, prev_value: bytes | None, last_value: bytes
) -> None:
    assert (event.type, event.value, event.prev_value, event.last_value) == (type_, value, prev_value, last_value)
