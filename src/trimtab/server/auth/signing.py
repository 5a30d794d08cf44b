"""Creates keys and signs certificates; imported only when one is missing, because importing cryptography is slow."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimtab.errors import InputError
from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.store.files import replacement_of, write_new_file

_AUTHORITY_VALIDITY = timedelta(days=3650)
_VALIDITY = timedelta(days=365)


def make_authority(authority: CertificateAuthority, now: datetime, common_name: str = "trimtab-ca") -> None:
    """Sign the authority's own certificate, with the key it has or, on the first start, with a new one."""
    certificate_path, key_path = authority.certificate_and_key("ca")
    if certificate_path.exists() and not key_path.exists():
        raise InputError(
            f"{certificate_path} must be renewed, but its key {key_path.name} is missing: restore the key, or remove "
            f"{authority.directory} to make a new authority (then every kubeconfig must be replaced)"
        )
    key = _read_key(key_path) if key_path.exists() else ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    certificate = (
        _builder(name, name, key.public_key(), now, _AUTHORITY_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _save(authority, "ca", certificate, key)


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; restore it from a backup") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: it holds no private key in PEM; restore it from a backup") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{path} does not hold an elliptic curve key; restore it from a backup")
    return key


def issue(
    authority: CertificateAuthority,
    file: str,
    common_name: str,
    groups: Sequence[str],
    names: Sequence[str] = (),
    *,
    now: datetime,
) -> None:
    """Sign a certificate and save it with its key; for a server when it has `names`, else for a client."""
    signer_certificate, signer_key = authority.certificate_and_key("ca")
    issuer = x509.load_pem_x509_certificate(signer_certificate.read_bytes())
    signer = _read_key(signer_key)
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = _for_purpose(_builder(subject, issuer.subject, key.public_key(), now, _VALIDITY), purpose)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False)
    _save(authority, file, builder.sign(signer, hashes.SHA256()), key)


def sign_request(authority: CertificateAuthority, request: bytes, validity: timedelta, now: datetime) -> bytes:
    """The certificate of a client for a request in PEM: its subject and key, without the extensions that it asks for.

    Raises `ValueError` for a request that cannot be read or is not signed with its key.
    """
    asked = x509.load_pem_x509_csr(request)
    if not asked.is_signature_valid:
        raise ValueError("the signature of the request is not valid")
    signer_certificate, signer_key = authority.certificate_and_key("ca")
    issuer = x509.load_pem_x509_certificate(signer_certificate.read_bytes())
    limit = issuer.not_valid_after_utc - now
    builder = _builder(asked.subject, issuer.subject, asked.public_key(), now, min(validity, limit))
    certificate = _for_purpose(builder, ExtendedKeyUsageOID.CLIENT_AUTH).sign(_read_key(signer_key), hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM)


def _for_purpose(builder: x509.CertificateBuilder, purpose: x509.ObjectIdentifier) -> x509.CertificateBuilder:
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, now: datetime, validity: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + validity)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _save(
    authority: CertificateAuthority, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    certificate_path, key_path = authority.certificate_and_key(file)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # Both are on the disk before either replaces the old one: a full disk must not leave a key without its certificate.
    with replacement_of(key_path) as new_key, replacement_of(certificate_path) as new_certificate:
        write_new_file(new_key, text)
        write_new_file(new_certificate, certificate.public_bytes(serialization.Encoding.PEM))
