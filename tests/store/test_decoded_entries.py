"""Stored objects that are kept decoded."""

from trimtab.store.decoded_entries import DecodedEntries
from trimtab.store.records import StoredEntry


def entry(name: str, revision: int, size: int = 1) -> StoredEntry:
    return StoredEntry(f"/registry/{name}", b'{"data":"%b"}' % (b"x" * size), revision, revision)


def test_object_is_decoded_once_per_change() -> None:
    decoded = DecodedEntries()
    first = decoded.decode(entry("a", 1))
    assert first == {"data": "x"}
    assert decoded.decode(entry("a", 1)) is first
    assert decoded.decode(entry("a", 2, size=2)) == {"data": "xx"}


def test_the_bytes_of_what_is_kept_are_bounded() -> None:
    decoded = DecodedEntries(max_bytes=100)
    kept = decoded.decode(entry("a", 1, 30))
    dropped = decoded.decode(entry("b", 1, 30))
    assert decoded.decode(entry("a", 1, 30)) is kept  # used last
    decoded.decode(entry("c", 1, 30))
    assert decoded.size <= 100
    assert decoded.decode(entry("a", 1, 30)) is kept
    assert decoded.decode(entry("b", 1, 30)) is not dropped


def test_one_object_beyond_the_limit_is_decoded_and_not_kept() -> None:
    decoded = DecodedEntries(max_bytes=10)
    assert decoded.decode(entry("a", 1, 30)) == {"data": "x" * 30}
    assert decoded.size == 0
