"""The certificate authority of a data directory."""

import ssl
import stat
from pathlib import Path

from trimtab.server.auth.certificates import ensure_authority, write_secret


def test_secret_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_secret(path, b"one")
    write_secret(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_certificates_are_created_once(tmp_path: Path) -> None:
    first = ensure_authority(tmp_path, [])
    before = first.certificate.read_bytes(), first.certificate_and_key("server")[0].read_bytes()
    again = ensure_authority(tmp_path, [])
    assert (again.certificate.read_bytes(), again.certificate_and_key("server")[0].read_bytes()) == before


def test_new_address_renews_only_the_server_certificate(tmp_path: Path) -> None:
    authority = ensure_authority(tmp_path, [])
    before, old_server = authority.certificate.read_bytes(), authority.certificate_and_key("server")[0].read_bytes()
    ensure_authority(tmp_path, ["192.0.2.1"])
    assert authority.certificate.read_bytes() == before
    assert authority.certificate_and_key("server")[0].read_bytes() != old_server


def test_certificate_and_key_belong_together(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ensure_authority(tmp_path, []).certificate_and_key("server"))
