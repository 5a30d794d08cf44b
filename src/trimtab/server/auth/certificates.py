"""The certificate authority that signs the server's and the administrator's certificate."""

import importlib
import logging
import os
import ssl
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from trimtab.errors import InputError
from trimtab.server.auth.validity import read_validity
from trimtab.store.files import replace_file

_SERVER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
_NAMES = ("ca", "admin", "server")
FRONT_PROXY = "front-proxy-client"
"""The name under which this server authenticates itself to the API servers of APIServices."""
log = logging.getLogger("trimtab.server")


class CertificateAuthority(NamedTuple):
    """Paths of the certificates and keys in a data directory."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.crt"

    def certificate_and_key(self, name: str) -> tuple[Path, Path]:
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"


def write_secret(path: Path, content: bytes) -> None:
    """Write a file atomically that only its owner can read."""
    replace_file(path, content)


def make_private(directory: Path, *patterns: str) -> None:
    """Create a directory that only its owner can read, or take other users' rights from it and from these files."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in (directory, *(found for pattern in patterns for found in directory.glob(pattern))):
        if path.is_symlink():
            continue
        found = path.stat()
        shared = found.st_mode & stat.S_ISVTX or found.st_uid != os.geteuid()  # such as /tmp: not ours to change
        if found.st_mode & 0o077 and not shared:
            path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def ensure_authority(directory: Path, addresses: Sequence[str], now: datetime | None = None) -> CertificateAuthority:
    """The authority in `directory`, created on the first start, with a server certificate for these addresses."""
    make_private(directory, "*")
    authority, now = CertificateAuthority(directory), now or datetime.now(UTC)
    try:
        renew_certificates(authority, addresses, now)
    except (OSError, InputError) as error:
        if not all(_is_usable(authority, name, now) for name in _NAMES):
            raise
        log.warning("certificates cannot be renewed, the old ones are used: %s", error)
    return authority


def ensure_signing_authority(directory: Path, name: str, now: datetime) -> CertificateAuthority:
    """The authority in `directory` that only signs requests; created when it is first needed."""
    make_private(directory, "*")
    authority = CertificateAuthority(directory)
    if _needs_renewal(authority, "ca", now):
        importlib.import_module("trimtab.server.auth.signing").make_authority(authority, now, name)
    return authority


def ensure_front_proxy(directory: Path, now: datetime) -> CertificateAuthority:
    """The authority in `directory` that other API servers trust, with a client certificate of this server.

    It is not the authority of clients: what it signs is trusted to name any user.
    """
    authority = ensure_signing_authority(directory, f"trimtab-{FRONT_PROXY}-ca", now)
    if _needs_renewal(authority, FRONT_PROXY, now):
        importlib.import_module("trimtab.server.auth.signing").issue(authority, FRONT_PROXY, FRONT_PROXY, [], now=now)
    return authority


def renew_certificates(authority: CertificateAuthority, addresses: Sequence[str], now: datetime) -> list[str]:
    """Make the certificates that are missing, damaged, for other addresses or near their end; returns their names.

    A renewed authority keeps its key, so that what it signed before and what trusts it stay valid.
    """
    wanted = "\n".join(sorted({*_SERVER_NAMES, "127.0.0.1", "::1", "10.96.0.1", *addresses}))
    names_file = authority.directory / "server.names"
    has_names = names_file.exists() and names_file.read_text() == wanted
    stale = [name for name in _NAMES if _needs_renewal(authority, name, now)]
    if "ca" in stale:
        stale = list(_NAMES)
    elif not has_names and "server" not in stale:
        stale.append("server")
    if not stale:
        return []
    signing = importlib.import_module("trimtab.server.auth.signing")
    if "ca" in stale:
        signing.make_authority(authority, now)
    if "admin" in stale:
        signing.issue(authority, "admin", "trimtab-admin", ["system:masters"], now=now)
    if "server" in stale:
        signing.issue(authority, "server", "trimtab-apiserver", [], wanted.split("\n"), now=now)
        write_secret(names_file, wanted.encode())
    return stale


def _needs_renewal(authority: CertificateAuthority, name: str, now: datetime) -> bool:
    certificate, key = authority.certificate_and_key(name)
    try:
        if read_validity(certificate.read_bytes()).needs_renewal(now):
            return True
        if name != "ca":  # whose key is needed only to sign, and may be kept elsewhere
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ValueError):  # missing, damaged, or a pair of which only one half was written
        if certificate.exists():
            log.warning("%s is damaged, or does not fit its key: it is made again", certificate)
        return True
    return False


def _is_usable(authority: CertificateAuthority, name: str, now: datetime) -> bool:
    try:
        validity = read_validity(authority.certificate_and_key(name)[0].read_bytes())
    except (OSError, ValueError):
        return False
    return validity.start <= now < validity.end
