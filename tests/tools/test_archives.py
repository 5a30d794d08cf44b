"""Archives have the same bytes for the same content."""

import io
import tarfile
from pathlib import Path

import pytest
from archives import Entry, compress, directory, entries_below, source_epoch, tar

ENTRIES = [Entry("b.txt", b"two"), Entry("a.txt", b"one", 0o755), directory("d"), Entry("d/link", link="../a.txt")]


def test_order_of_the_entries_does_not_matter() -> None:
    assert tar(ENTRIES, 1000) == tar(ENTRIES[::-1], 1000)
    assert compress(tar(ENTRIES, 1000)) == compress(tar(ENTRIES[::-1], 1000))


def test_entries_have_one_time_and_no_owner() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar(ENTRIES, 1000))) as archive:
        members = {member.name: member for member in archive}
    assert {member.mtime for member in members.values()} == {1000}
    assert {(member.uid, member.gid, member.uname) for member in members.values()} == {(0, 0, "")}
    assert members["a.txt"].mode == 0o755
    assert members["d"].isdir()
    assert members["d/link"].linkname == "../a.txt"


def test_a_later_entry_replaces_an_earlier_one() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar([Entry("x", b"old"), Entry("x", b"new")], 0))) as archive:
        assert [archive.extractfile(member).read() for member in archive] == [b"new"]


def test_entries_of_a_folder_keep_links_and_the_executable_bit(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "run").write_text("x")
    (tmp_path / "bin" / "run").chmod(0o700)
    (tmp_path / "link").symlink_to("bin/run")
    assert list(entries_below(tmp_path, "opt/")) == [
        directory("opt/bin"),
        Entry("opt/bin/run", b"x", 0o755),
        Entry("opt/link", link="bin/run", mode=0o777),
    ]


def test_time_of_the_build_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234")
    assert source_epoch() == 1234
