"""The certificate authority of a data directory."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from trimtab.errors import InputError
from trimtab.server.auth.certificates import (
    CertificateAuthority,
    ensure_authority,
    make_private,
    renew_certificates,
    write_secret,
)


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


NOW = datetime(2026, 3, 1, tzinfo=UTC)


def contents(authority: CertificateAuthority) -> dict[str, bytes]:
    return {name: authority.certificate_and_key(name)[0].read_bytes() for name in ("ca", "admin", "server")}


def test_certificates_are_renewed_before_they_expire(tmp_path: Path) -> None:
    authority = ensure_authority(tmp_path, [], NOW)
    first, key = contents(authority), authority.certificate_and_key("ca")[1].read_bytes()
    assert renew_certificates(authority, [], NOW + timedelta(days=200)) == []
    soon = NOW + timedelta(days=300)
    assert renew_certificates(authority, [], soon) == ["admin", "server"]
    second = contents(authority)
    assert second["ca"] == first["ca"]
    assert not {second["admin"], second["server"]} & {first["admin"], first["server"]}
    late = NOW + timedelta(days=3000)
    assert renew_certificates(authority, [], late) == ["ca", "admin", "server"]
    assert contents(authority)["ca"] != first["ca"]
    assert authority.certificate_and_key("ca")[1].read_bytes() == key
    assert renew_certificates(authority, [], late) == []


def test_what_the_authority_signed_before_its_renewal_stays_valid(tmp_path: Path) -> None:
    authority = ensure_authority(tmp_path, [], NOW)
    old_authority, old_client = (x509.load_pem_x509_certificate(contents(authority)[name]) for name in ("ca", "admin"))
    renew_certificates(authority, [], NOW + timedelta(days=3000))
    new_authority, new_client = (x509.load_pem_x509_certificate(contents(authority)[name]) for name in ("ca", "admin"))
    old_client.verify_directly_issued_by(new_authority)
    new_client.verify_directly_issued_by(old_authority)


@pytest.mark.parametrize("file", ["server.key", "server.crt", "admin.key", "admin.crt", "ca.crt"])
@pytest.mark.parametrize("damage", ["removed", "emptied", "swapped"])
def test_damaged_or_half_written_pair_is_made_again(tmp_path: Path, file: str, damage: str) -> None:
    authority = ensure_authority(tmp_path / "a", [], NOW)
    path = tmp_path / "a" / file
    if damage == "removed":
        path.unlink()
    elif damage == "emptied":
        path.write_bytes(b"")
    elif file != "ca.crt":
        ensure_authority(tmp_path / "b", [], NOW)
        path.write_bytes((tmp_path / "b" / file).read_bytes())
    ensure_authority(tmp_path / "a", [], NOW)
    for name in ("admin", "server"):
        certificate, key = authority.certificate_and_key(name)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
        x509.load_pem_x509_certificate(certificate.read_bytes()).verify_directly_issued_by(issuer)


def test_damaged_certificate_is_named_and_a_first_start_is_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = ensure_authority(tmp_path, [], NOW)
    assert caplog.text == ""
    damaged = authority.certificate_and_key("server")[0]
    damaged.write_text("no certificate")
    ensure_authority(tmp_path, [], NOW)
    assert f"{damaged} is damaged, or does not fit its key: it is made again" in caplog.text
    caplog.clear()
    ensure_authority(tmp_path, [], NOW)
    assert caplog.text == ""


def test_authority_without_its_key_serves_until_its_certificates_expire(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = ensure_authority(tmp_path, [], NOW)
    before = contents(authority)
    authority.certificate_and_key("ca")[1].unlink()
    ensure_authority(tmp_path, [], NOW + timedelta(days=300))
    assert "cannot be renewed" in caplog.text
    assert contents(authority) == before
    with pytest.raises(InputError, match="restore"):
        ensure_authority(tmp_path, [], NOW + timedelta(days=400))


def test_directory_and_files_that_others_can_read_become_private(tmp_path: Path) -> None:
    directory = tmp_path / "pki"
    directory.mkdir(mode=0o755)
    key = directory / "ca.key"
    key.write_text("secret")
    key.chmod(0o644)
    make_private(directory, "*")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (directory, key)] == [0o700, 0o600]
