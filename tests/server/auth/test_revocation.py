"""The list of revoked certificates is read when it changes, and a damaged one is refused."""

from pathlib import Path

import pytest

from trimtab.errors import InputError
from trimtab.server.auth import revocation
from trimtab.server.auth.revocation import RevokedCertificates, normalize_serial


def test_serial_numbers_are_compared_whatever_their_form(tmp_path: Path) -> None:
    revoked = RevokedCertificates(tmp_path / "list")
    assert revoked.add("0A:BC", "left\nthe team")
    assert not revoked.add("abc")
    assert revoked.contains("0ABC")
    assert not revoked.contains("ABD")
    assert (tmp_path / "list").read_text() == "abc  # left the team\n"


def test_change_of_the_file_is_noticed(tmp_path: Path) -> None:
    revoked = RevokedCertificates(tmp_path / "list")
    assert not revoked.reload()
    RevokedCertificates(tmp_path / "list").add("12")
    assert revoked.reload()
    assert not revoked.reload()
    (tmp_path / "list").unlink()
    assert revoked.reload()
    assert not revoked.contains("12")


@pytest.mark.parametrize("text", ["", "0", "xyz", "12 34"])
def test_what_is_no_serial_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no serial number"):
        normalize_serial(text)


def test_list_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revocation, "MAX_BYTES", 4)
    (tmp_path / "list").write_text("12\n34\n")
    with pytest.raises(InputError, match="more than 4 bytes"):
        RevokedCertificates(tmp_path / "list").reload()
