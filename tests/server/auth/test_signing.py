"""Signing of certificates."""

import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.auth.signing import issue, make_authority

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path)
    make_authority(made, NOW)
    return made


def load(authority: CertificateAuthority, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.certificate_and_key(name)[0].read_bytes())


def test_client_certificate_carries_user_and_groups(authority: CertificateAuthority) -> None:
    issue(authority, "admin", "alice", ["system:masters"], now=NOW)
    certificate = load(authority, "admin")
    certificate.verify_directly_issued_by(load(authority, "ca"))
    subject = certificate.subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_server_certificate_carries_names_and_addresses(authority: CertificateAuthority) -> None:
    issue(authority, "server", "api", [], ["localhost", "::1"], now=NOW)
    names = load(authority, "server").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["::1"]


@pytest.mark.parametrize("room", [0, 100, 400])
def test_full_disk_leaves_the_old_key_and_its_certificate(authority: CertificateAuthority, room: int) -> None:
    """A key without its certificate would not start any more. There is room for nothing, or for one of the two files."""
    issue(authority, "server", "one", [], ["localhost"], now=datetime.now(UTC))
    paths = authority.certificate_and_key("server")
    before = [path.read_bytes() for path in paths]
    sizes = sorted(map(len, before))
    assert sizes[0] < 400 < sizes[1]
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, unlimited[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            issue(authority, "server", "two", [], ["localhost"], now=datetime.now(UTC))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert [path.read_bytes() for path in paths] == before
    assert {path.suffix for path in authority.directory.iterdir()} == {".crt", ".key"}
