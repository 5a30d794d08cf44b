import pytest

from trimtab.store.records import Entry, Event

OLD, NEW = Entry("/a", b"old", 2, 2), Entry("/a", b"new", 3, 2)


@pytest.mark.parametrize(
    ("event", "type_", "value", "prev_value", "last_value"),
    [
        (Event("/a", 2, OLD, None), "ADDED", b"old", None, b"old"),
        (Event("/a", 3, NEW, OLD), "MODIFIED", b"new", b"old", b"new"),
        (Event("/a", 4, None, NEW), "DELETED", None, b"new", b"new"),
    ],
)
def test_event_type_and_values_follow_from_its_entries(
    event: Event, type_: str, value: bytes | None, prev_value: bytes | None, last_value: bytes
) -> None:
    assert (event.type, event.value, event.prev_value, event.shown) == (type_, value, prev_value, last_value)
