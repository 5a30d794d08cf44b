"""The period of a certificate."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from trimtab.server.auth.certificates import CertificateAuthority, ensure_authority
from trimtab.server.auth.signing import issue
from trimtab.server.auth.validity import Validity, read_validity


@pytest.mark.parametrize("year", [2026, 2049, 2050, 2071])
def test_period_is_that_of_the_certificate(tmp_path: Path, year: int) -> None:
    ensure_authority(tmp_path, [])
    issue(CertificateAuthority(tmp_path), "x", "x", [], now=datetime(year, 3, 1, tzinfo=UTC))
    pem = (tmp_path / "x.crt").read_bytes()
    expected = x509.load_pem_x509_certificate(pem)
    assert read_validity(pem) == (expected.not_valid_before_utc, expected.not_valid_after_utc)


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"]
)
def test_damaged_certificate_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_validity(content)


def test_renewal_is_due_in_the_last_third_of_the_period() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    period = Validity(start, start + timedelta(days=300))
    for day, due in ((-1, True), (0, False), (199, False), (201, True), (301, True)):
        assert period.needs_renewal(start + timedelta(days=day)) is due
