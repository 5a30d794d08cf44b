"""The certificate authority that signs the server's and the administrator's certificate."""

import importlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_SERVER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)


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
    temporary = path.with_suffix(path.suffix + f".{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    temporary.replace(path)


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


def ensure_authority(directory: Path, addresses: Sequence[str]) -> CertificateAuthority:
    """The authority in `directory`, created on the first start, with a server certificate for these addresses."""
    make_private(directory, "*")
    authority = CertificateAuthority(directory)
    wanted = "\n".join(sorted({*_SERVER_NAMES, "127.0.0.1", "::1", "10.96.0.1", *addresses}))
    names_file = directory / "server.names"
    if authority.certificate.exists() and names_file.exists() and names_file.read_text() == wanted:
        return authority
    signing = importlib.import_module("trimtab.server.auth.signing")
    if not authority.certificate.exists():
        signing.make_authority(authority)
        signing.issue(authority, "admin", "trimtab-admin", ["system:masters"])
    if not names_file.exists() or names_file.read_text() != wanted:
        signing.issue(authority, "server", "trimtab-apiserver", [], wanted.split("\n"))
        write_secret(names_file, wanted.encode())
    return authority
