"""What a pull agent authenticates with at its control plane: a client certificate, or a token, that it renews by itself.

The agent keeps it in a Secret of its own cluster and renews it when a third of its lifetime has passed. Clients of the host read
it from a kubeconfig that is written again, so no watch is interrupted. The private key never leaves the cluster.
"""

import asyncio
import base64
import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.client.service_account_tokens import read_claims
from trimtab.clock import Clock
from trimtab.errors import AlreadyExists, ApiError, Conflict, InputError, NotFound
from trimtab.members.agent_access import AGENT_GROUP, LIFETIME_SECONDS, account_of, bootstrap_account_of, user_of
from trimtab.members.join import CLUSTER_NAMESPACE, SECRETS, SERVICE_ACCOUNTS, request_token
from trimtab.server.auth.request_signing import CLIENT_SIGNER, REQUESTS
from trimtab.store.files import replace_file
from trimtab.telemetry import Sample

RENEWED_PART = 3
"""Credentials are renewed when one part in this many of their lifetime has passed."""
CHECK_SECONDS = 300.0
POLL_SECONDS = 1.0
HINT_SECONDS = 30.0
"""After this time without a certificate, the log says what the agent waits for."""
log = logging.getLogger("trimtab.agent")


class HostAddress(NamedTuple):
    """Where an agent finds its control plane, and the authority that it trusts."""

    server: str
    ca: bytes


class Lifetime(NamedTuple):
    """The time in which credentials are valid."""

    begins: datetime
    ends: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether they should be renewed."""
        return now - self.begins >= (self.ends - self.begins) / RENEWED_PART


class HeldCredentials(Protocol):
    """A certificate with its key, or a token."""

    @property
    def lifetime(self) -> Lifetime | None:
        """None if it cannot be read: such credentials are not used."""

    def authenticate(self, address: HostAddress) -> Credentials: ...

    def kubeconfig_user(self) -> Raw: ...

    def secret_data(self) -> dict[str, str]: ...

    async def renew(self, host: Client, cluster: str) -> "HeldCredentials":
        """New credentials of the same kind, which the host gives to who has these."""


class HeldToken(NamedTuple):
    """A token of the service account of the agent."""

    token: str

    @property
    def lifetime(self) -> Lifetime | None:
        claims = read_claims(self.token)
        return Lifetime(claims.issued, claims.expires) if claims is not None else None

    def authenticate(self, address: HostAddress) -> Credentials:
        return Credentials(server=address.server, ca=address.ca, token=self.token)

    def kubeconfig_user(self) -> Raw:
        return {"token": self.token}

    def secret_data(self) -> dict[str, str]:
        return {"token": encode(self.token.encode())}

    async def renew(self, host: Client, cluster: str) -> HeldCredentials:
        return HeldToken(await request_token(host, CLUSTER_NAMESPACE, account_of(cluster), LIFETIME_SECONDS))


class HeldCertificate(NamedTuple):
    """A client certificate of the agent and its key, both as PEM."""

    certificate: bytes
    key: bytes

    @property
    def lifetime(self) -> Lifetime | None:
        try:
            read = x509.load_pem_x509_certificate(self.certificate)
        except ValueError:
            return None
        return Lifetime(read.not_valid_before_utc, read.not_valid_after_utc)

    def authenticate(self, address: HostAddress) -> Credentials:
        return Credentials(server=address.server, ca=address.ca, cert=self.certificate, key=self.key)

    def kubeconfig_user(self) -> Raw:
        return {"client-certificate-data": encode(self.certificate), "client-key-data": encode(self.key)}

    def secret_data(self) -> dict[str, str]:
        return {"tls.crt": encode(self.certificate), "tls.key": encode(self.key)}

    async def renew(self, host: Client, cluster: str) -> HeldCredentials:
        return await request_certificate(host, cluster)


class BootstrapToken(HeldToken):
    """The token of `trimtab join-command`, good for requesting the first certificate."""

    async def renew(self, host: Client, cluster: str) -> HeldCredentials:
        return await request_certificate(host, cluster)


async def request_certificate(host: Client, cluster: str) -> HeldCertificate:
    """Request a certificate for a new key, and wait until the control plane has approved and signed it."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = certificate_request(cluster, key)
    name = request["metadata"]["name"]
    await host.create(REQUESTS, request, manager="trimtab-agent")
    waited = 0.0
    while not (certificate := issued_certificate(await host.get(REQUESTS, "", name))):
        await asyncio.sleep(POLL_SECONDS)
        waited += POLL_SECONDS
        if waited % HINT_SECONDS < POLL_SECONDS:
            log.warning(
                "the certificate request %s has no answer yet: the controllers of the control plane approve it, and its "
                "API server must sign client certificates; if it does not, use `trimtab join-command --tokens`",
                name,
            )
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return HeldCertificate(certificate, key.private_bytes(serialization.Encoding.PEM, form, plain))


def certificate_request(cluster: str, key: ec.EllipticCurvePrivateKey) -> Raw:
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, AGENT_GROUP),
        x509.NameAttribute(NameOID.COMMON_NAME, user_of(cluster)),
    ]
    signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    text = signed.public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": REQUESTS.api_version,
        "kind": REQUESTS.kind,
        # A name of its own for every key: requests are not changed, and an old one may still exist.
        "metadata": {"name": f"{account_of(cluster)}-{hashlib.sha256(text).hexdigest()[:16]}"},
        "spec": {
            "request": encode(text),
            "signerName": CLIENT_SIGNER,
            "usages": ["digital signature", "client auth"],
            "expirationSeconds": LIFETIME_SECONDS,
        },
    }


def issued_certificate(request: Raw) -> bytes:
    """The certificate in a request; empty while there is none. Raises `InputError` when there will be none."""
    status = request.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            why = condition.get("message") or condition.get("reason") or "without a reason"
            name = request["metadata"]["name"]
            raise InputError(f"the certificate request {name} was {condition['type'].lower()}: {why}")
    return base64.b64decode(status.get("certificate") or "")


def held_in(secret: Raw) -> Iterator[HeldCredentials]:
    """What a Secret holds; the certificate first."""
    data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
    if data.get("tls.crt"):
        yield HeldCertificate(data["tls.crt"], data.get("tls.key", b""))
    if data.get("token"):
        yield HeldToken(data["token"].decode(errors="replace"))


def given_token(token: str, cluster: str) -> HeldCredentials:
    """What the token of `trimtab join-command` is good for: its account tells."""
    claims = read_claims(token)
    if claims is not None and claims.account == bootstrap_account_of(cluster):
        return BootstrapToken(token)
    return HeldToken(token)


class AgentCredentials:
    """The credentials of an agent: kept in a Secret of its own cluster, and renewed while they are used."""

    def __init__(
        self, member: Client, clock: Clock, cluster: str, address: HostAddress, secret: tuple[str, str], file: Path
    ) -> None:
        """`file` is the kubeconfig that clients of the host read; it is written again with new credentials."""
        self._member = member
        self._clock = clock
        self._cluster = cluster
        self._address = address
        self._secret = secret
        self._file = file
        self._held: HeldCredentials = HeldToken("")

    async def start(self, bootstrap_token: str) -> None:
        """Use a kept certificate; without a valid one the given token, or a kept token that still is valid."""
        given = given_token(bootstrap_token, self._cluster)
        kept = [one for one in await self._read_kept() if self._is_valid(one)]
        certificates = [one for one in kept if isinstance(one, HeldCertificate)]
        if not certificates and isinstance(given, BootstrapToken) and self._is_valid(given):
            self._use(given)
            await self.renew()
        elif kept:
            self._use(kept[0])
        elif bootstrap_token:
            self._use(given)
            await self.renew()
        else:
            raise InputError("there are no valid credentials of this agent; run `trimtab join-command` again")

    def _is_valid(self, held: HeldCredentials) -> bool:
        lifetime = held.lifetime
        return lifetime is not None and lifetime.begins <= self._clock.now() < lifetime.ends

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.renew_if_due()
            except (ApiError, OSError, TimeoutError, InputError) as fault:
                log.warning("cannot renew the credentials for the control plane: %s", fault)

    async def renew_if_due(self) -> None:
        lifetime = self._held.lifetime
        if lifetime is None or lifetime.is_due(self._clock.now()):
            await self.renew()

    async def renew(self) -> None:
        """Get new credentials, keep them, and use them from now on."""
        host = KubeClient(self._held.authenticate(self._address))
        try:
            new = await self._held.renew(host, self._cluster)
        finally:
            await host.close()
        await self._keep(new)
        self._use(new)
        if isinstance(new, HeldCertificate):
            await self._delete_accounts(new)
        log.info("renewed the credentials for the control plane")

    async def _delete_accounts(self, held: HeldCertificate) -> None:
        """Delete the accounts whose tokens are not needed any more, so that the printed token is good for one agent."""
        host = KubeClient(held.authenticate(self._address))
        try:
            for name in (bootstrap_account_of(self._cluster), account_of(self._cluster)):
                with suppress(NotFound):
                    await host.delete(SERVICE_ACCOUNTS, CLUSTER_NAMESPACE, name)
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("cannot delete the accounts that this agent does not need any more: %s", fault)
        finally:
            await host.close()

    def samples(self) -> Iterator[Sample]:
        if (lifetime := self._held.lifetime) is not None:
            yield Sample("trimtab_agent_credentials_expiry_seconds", lifetime.ends.timestamp())

    async def _read_kept(self) -> list[HeldCredentials]:
        try:
            return list(held_in(await self._member.get(SECRETS, *self._secret)))
        except NotFound:
            return []

    async def _keep(self, held: HeldCredentials) -> None:
        namespace, name = self._secret
        data = held.secret_data()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": namespace, "name": name},
            "type": "Opaque",
            "data": data,
        }
        try:
            await self._member.create(SECRETS, secret, manager="trimtab-agent")
        except (AlreadyExists, Conflict):
            removed = dict.fromkeys({"token", "tls.crt", "tls.key"} - set(data))
            await self._member.patch(SECRETS, namespace, name, {"data": {**removed, **data}}, manager="trimtab-agent")

    def _use(self, held: HeldCredentials) -> None:
        self._held = held
        replace_file(self._file, json.dumps(host_kubeconfig(self._address, held)).encode())


def encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def host_kubeconfig(address: HostAddress, held: HeldCredentials) -> Raw:
    authority = {"certificate-authority-data": encode(address.ca)} if address.ca else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "host", "cluster": {"server": address.server, **authority}}],
        "users": [{"name": "agent", "user": held.kubeconfig_user()}],
        "contexts": [{"name": "host", "context": {"cluster": "host", "user": "agent"}}],
        "current-context": "host",
    }
