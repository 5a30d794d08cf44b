"""The audit log loses nothing that was put before it is closed, rotates, and is private."""

from pathlib import Path

import pytest

from trimtab.errors import InputError
from trimtab.server.http.audit_log import AuditLog, AuditRotation


def test_all_lines_are_written_before_it_closes_and_a_restart_appends(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for start in (0, 500):
        log = AuditLog(path)
        for number in range(start, start + 500):
            log.put(str(number).encode())
        log.close()
        assert (log.written, log.lost) == (500, 0)
    assert path.read_text().splitlines() == [str(number) for number in range(1000)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_file_is_replaced_when_it_is_full_and_only_the_last_ones_are_kept(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", AuditRotation(max_megabytes=1, max_files=2))
    for _ in range(5):
        log.put(b"x" * 700_000)
    log.close()
    earlier = sorted(tmp_path.glob("audit-*.log"))
    assert len(earlier) == 2
    assert all(path.stat().st_size == 700_001 for path in (*earlier, tmp_path / "audit.log"))


def test_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        AuditLog(tmp_path / "missing" / "audit.log")
