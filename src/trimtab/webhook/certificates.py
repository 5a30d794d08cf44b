"""The certificates of the webhook: made and renewed here and shared in a Secret, or read from files of cert-manager.

All replicas share one Secret; whoever finds it missing or near its end writes it for the version that was read, so that one of
them wins. The authority lives a year, the certificate of the server thirty days; each is renewed when a third is left.

An API server trusts a webhook by the bundle in its configuration. A new authority is first added to the bundle, beside the old one,
and signs the certificate of the server only in a later round, when the configurations have it: no call fails in between. A round
reads the configurations before the Secret. So the bundle of a replica that was paused in between is refused as a conflict when
others have written a newer one.
"""

import asyncio
import base64
import ipaddress
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.errors import AlreadyExists, ApiError, Conflict, NotFound
from trimtab.server.auth.certificates import write_secret
from trimtab.server.auth.validity import read_validity

SECRETS = Resource("", "v1", "secrets", "Secret")
_GROUP = "admissionregistration.k8s.io"
CONFIGURATIONS = (
    Resource(_GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
    Resource(_GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
)
AUTHORITY_VALIDITY = timedelta(days=365)
SERVER_VALIDITY = timedelta(days=30)
CHECK_SECONDS = 30.0
log = logging.getLogger("trimtab.webhook")


class KeyPair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class WebhookCertificates(NamedTuple):
    """What the Secret contains."""

    authority: KeyPair
    server: KeyPair
    bundle: bytes
    """The authorities that API servers trust: the present one and, for a while, the one before or the next one."""

    def to_data(self) -> Raw:
        parts = {
            "ca.crt": self.authority.certificate,
            "ca.key": self.authority.key,
            "tls.crt": self.server.certificate,
            "tls.key": self.server.key,
            "bundle.crt": self.bundle,
        }
        return {name: base64.b64encode(part).decode() for name, part in parts.items()}

    @staticmethod
    def from_data(data: Raw) -> "WebhookCertificates":
        """Raises `ValueError` when a part is missing or damaged."""
        try:
            parts = [base64.b64decode(data[name]) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key", "bundle.crt")]
        except KeyError as missing:
            raise ValueError(f"the Secret has no {missing}") from missing
        check_pair(KeyPair(*parts[:2]))
        check_pair(KeyPair(*parts[2:4]))
        return WebhookCertificates(KeyPair(*parts[:2]), KeyPair(*parts[2:4]), parts[4])


def check_pair(pair: KeyPair) -> None:
    """Raise `ValueError` unless both can be read and belong together."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    if serialization.load_pem_private_key(pair.key, None).public_key() != certificate.public_key():
        raise ValueError("a certificate has the key of another one")


def needs_renewal(certificate: bytes, now: datetime) -> bool:
    """Whether less than a third of its time is left."""
    try:
        validity = read_validity(certificate)
    except ValueError:
        return True
    return now >= validity.end - (validity.end - validity.start) / 3


def new_certificates(names: Sequence[str], now: datetime) -> WebhookCertificates:
    authority = new_authority(now)
    return WebhookCertificates(authority, issue_server(authority, names, now), authority.certificate)


def renew_expiring(
    present: WebhookCertificates, names: Sequence[str], now: datetime, trusted: bytes
) -> WebhookCertificates:
    """The certificates with those renewed that are near their end; the same if none is.

    The server gets a certificate of another authority only if API servers trust that by their bundle `trusted`.
    """
    if needs_renewal(present.authority.certificate, now):
        authority = new_authority(now)
        return present._replace(authority=authority, bundle=authority.certificate + present.authority.certificate)
    is_signed = issued_by(present.server.certificate, present.authority.certificate)
    if not is_signed and present.authority.certificate not in trusted:
        return present
    if (
        not is_signed
        or needs_renewal(present.server.certificate, now)
        or names_of(present.server.certificate) != set(names)
    ):
        return present._replace(server=issue_server(present.authority, names, now))
    return present


def new_authority(now: datetime) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"trimtab-webhook-ca {now:%Y-%m-%d}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key, now, AUTHORITY_VALIDITY)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pair(builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key)


def issue_server(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trimtab-webhook")])
    builder = (
        _builder(subject, issuer.subject, key, now, SERVER_VALIDITY)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def issued_by(certificate: bytes, authority: bytes) -> bool:
    one, issuer = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificate(authority)
    try:
        one.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names_of(certificate: bytes) -> set[str]:
    """The names and addresses for which the certificate is valid."""
    found = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {str(name.value) for name in found.value}


def general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, validity: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + validity)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    plain = serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), text)


def common_bundle(configurations: Sequence[Raw]) -> bytes:
    """The bundle of all webhooks of the configurations; empty if they differ, or if there is none."""
    texts = {hook["clientConfig"].get("caBundle") for one in configurations for hook in one.get("webhooks") or ()}
    text = texts.pop() if len(texts) == 1 else None
    return base64.b64decode(text) if text else b""


class CertificateRotation:
    """Keeps the Secret and the configurations current, and loads what the server presents."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        secret: str,
        configuration: str,
        names: Sequence[str],
        load: Callable[[KeyPair], None],
    ) -> None:
        """`configuration` is the name of both webhook configurations; `load` makes the server present a certificate."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._secret = secret
        self._configuration = configuration
        self._names = names
        self._load = load
        self._loaded: KeyPair | None = None
        self._bundle_before = b""
        """What the configurations had in the round before: by now all API servers have seen it."""
        self.expires: datetime | None = None

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    async def run(self) -> None:
        while True:
            try:
                await self.renew()
            except (ApiError, OSError, TimeoutError, ValueError) as fault:
                log.warning("cannot renew the certificates: %s", fault)
            await asyncio.sleep(CHECK_SECONDS if self.is_loaded else 1.0)

    async def renew(self) -> None:
        """One round: renew what is due, tell the API server, and only then present the certificate."""
        configurations = [await self._client.get(resource, "", self._configuration) for resource in CONFIGURATIONS]
        bundle, before = common_bundle(configurations), self._bundle_before
        self._bundle_before = bundle
        certificates = await self._current_certificates(bundle if bundle == before else b"")
        await self._write_bundle(configurations, certificates.bundle)
        if certificates.server != self._loaded:
            self._load(certificates.server)
            self._loaded = certificates.server
            self.expires = read_validity(certificates.server.certificate).end

    async def _current_certificates(self, trusted: bytes) -> WebhookCertificates:
        now = self._clock.now()
        try:
            stored = await self._client.get(SECRETS, self._namespace, self._secret)
        except NotFound:
            return await self._create(new_certificates(self._names, now), trusted)
        try:
            present = WebhookCertificates.from_data(stored.get("data") or {})
        except ValueError as fault:
            log.warning("the Secret %s is replaced: %s", self._secret, fault)
            return await self._store(stored, new_certificates(self._names, now), trusted)
        wanted = renew_expiring(present, self._names, now, trusted)
        return present if wanted == present else await self._store(stored, wanted, trusted)

    async def _create(self, wanted: WebhookCertificates, trusted: bytes) -> WebhookCertificates:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": self._namespace, "name": self._secret},
            "type": "Opaque",
            "data": wanted.to_data(),
        }
        with suppress(AlreadyExists):
            await self._client.create(SECRETS, secret)
            return wanted
        return await self._current_certificates(trusted)  # another replica was first

    async def _store(self, stored: Raw, wanted: WebhookCertificates, trusted: bytes) -> WebhookCertificates:
        with suppress(Conflict):
            await self._client.replace(SECRETS, {**stored, "data": wanted.to_data()})
            return wanted
        return await self._current_certificates(trusted)

    async def _write_bundle(self, configurations: Sequence[Raw], bundle: bytes) -> None:
        text = base64.b64encode(bundle).decode()
        for resource, found in zip(CONFIGURATIONS, configurations, strict=True):
            hooks = [
                {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": text}}
                for hook in found.get("webhooks") or ()
            ]
            if hooks != found.get("webhooks"):
                await self._client.replace(resource, {**found, "webhooks": hooks})


class CertificateFiles:
    """Certificates that something else renews, such as cert-manager: read again when the files change."""

    def __init__(self, directory: Path, load: Callable[[KeyPair], None]) -> None:
        self._directory = directory
        self._load = load
        self._loaded: KeyPair | None = None
        self.expires: datetime | None = None

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    async def run(self) -> None:
        while True:
            try:
                self.read()
            except (OSError, ValueError) as fault:
                log.warning("cannot read the certificates in %s: %s", self._directory, fault)
            await asyncio.sleep(CHECK_SECONDS if self.is_loaded else 1.0)

    def read(self) -> None:
        pair = KeyPair((self._directory / "tls.crt").read_bytes(), (self._directory / "tls.key").read_bytes())
        if pair != self._loaded:
            self._load(pair)
            self._loaded = pair
            self.expires = read_validity(pair.certificate).end


def write_pair(directory: Path, pair: KeyPair) -> None:
    """Write the certificate where a listener reads it."""
    write_secret(directory / "server.key", pair.key)
    write_secret(directory / "server.crt", pair.certificate)
