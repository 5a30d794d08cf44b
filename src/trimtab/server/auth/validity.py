"""Reads from when until when a certificate is valid, without the slow import of a cryptographic library."""

import ssl
from datetime import UTC, datetime
from typing import NamedTuple

_SEQUENCE, _EXPLICIT_VERSION, _UTC_TIME, _LONG_TIME = 0x30, 0xA0, 0x17, 0x18


class Validity(NamedTuple):
    """The period of a certificate."""

    start: datetime
    end: datetime

    def needs_renewal(self, now: datetime) -> bool:
        """Whether less than a third of the period is left, or the clock is outside of it."""
        return not self.start <= now <= self.end - (self.end - self.start) / 3


class _Element(NamedTuple):
    """One element of DER: its type and where its content starts and ends."""

    tag: int
    start: int
    end: int


def _element_at(der: bytes, at: int) -> _Element:
    tag, length, start = der[at], der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(der[start : start + count]), start + count
    if start + length > len(der):
        raise ValueError("the certificate is truncated")
    return _Element(tag, start, start + length)


def _children(der: bytes, parent: _Element, tag: int = _SEQUENCE) -> list[_Element]:
    if parent.tag != tag:
        raise ValueError("the certificate has an unexpected structure")
    found, at = [], parent.start
    while at < parent.end:
        found.append(_element_at(der, at))
        at = found[-1].end
    return found


def _moment(der: bytes, element: _Element) -> datetime:
    formats = {_UTC_TIME: "%y%m%d%H%M%SZ", _LONG_TIME: "%Y%m%d%H%M%SZ"}
    if element.tag not in formats:
        raise ValueError("the certificate has no period")
    return datetime.strptime(der[element.start : element.end].decode(), formats[element.tag]).replace(tzinfo=UTC)


def read_validity(pem: bytes) -> Validity:
    """The period of the first certificate in a PEM file; a ValueError when it cannot be read."""
    try:
        der = ssl.PEM_cert_to_DER_cert(
            pem.decode("ascii").partition("-----END")[0].strip() + "\n-----END CERTIFICATE-----"
        )
        signed_part = _children(der, _element_at(der, 0))[0]
        fields = _children(der, signed_part)
        if fields[0].tag == _EXPLICIT_VERSION:
            fields = fields[1:]
        start, end = _children(der, fields[3])  # after the serial number, the algorithm and the issuer
        return Validity(_moment(der, start), _moment(der, end))
    except IndexError as error:
        raise ValueError("the certificate is truncated") from error
