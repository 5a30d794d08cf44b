"""The certificate authority that signs the server's and the administrator's certificate."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trimtab.store.files import replace_file

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
    replace_file(path, content)


def ensure_authority(directory: Path, addresses: Sequence[str]) -> CertificateAuthority:
    """The authority in `directory`, created on the first start, with a server certificate for these addresses."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
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
