from pathlib import Path

import pytest

from trimtab.store.revision_marker import RevisionMarker


@pytest.fixture
def marker(tmp_path: Path) -> RevisionMarker:
    return RevisionMarker(tmp_path)


def test_recorded_revision_is_read_back_at_any_size(marker: RevisionMarker) -> None:
    marker.replace(1)
    marker.open()
    for revision in (2, 99, 100, 2**62, 7):
        marker.record(revision)
        assert marker.read() == revision
    marker.close()
    assert marker.read() == 7


def test_missing_and_damaged_markers_have_no_revision(marker: RevisionMarker) -> None:
    assert marker.read() is None
    marker.replace(1234)
    content = marker.path.read_bytes()
    damaged = [content[:cut] for cut in range(len(content))]
    damaged += [content[:n] + bytes([content[n] ^ 1]) + content[n + 1 :] for n in range(len(content))]
    damaged += [b"", b"x", bytes(30), b"\xff" * 30, content * 2, content.replace(b"1234", b"1235")]
    for text in damaged:
        marker.path.write_bytes(text)
        assert marker.read() is None, text


def test_failed_record_is_ignored_because_the_commit_is_durable(marker: RevisionMarker) -> None:
    marker.replace(5)
    marker.record(6)  # not open
    assert marker.read() == 5
