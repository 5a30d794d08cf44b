import os
import resource
import stat
from pathlib import Path

import pytest

from trimtab.store.files import replace_file, replacement_of, write_new_file


def test_file_is_replaced_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for content in (b"old", b"new"):
        replace_file(path, content)
        assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_failed_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    replace_file(path, b"old")
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, unlimited[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            replace_file(path, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_body_that_fails_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacement_of(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]


def test_content_and_names_are_synced_before_and_after_the_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced, real = tmp_path / "secret", [], os.fsync

    def record(descriptor: int) -> None:
        found = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append("directory" if found == tmp_path else "old" if path.exists() else "new")
        real(descriptor)

    monkeypatch.setattr("trimtab.store.files.os.fsync", record)
    write_new_file(tmp_path / "other", b"content")
    assert synced == ["new"]
    replace_file(path, b"content")
    assert synced[1:] == ["new", "new", "directory"]
