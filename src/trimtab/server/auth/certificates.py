"""An authority of our own: it signs the server's certificate and those of the first clients."""

import importlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)


class Authority(NamedTuple):
    """Where the certificates of a data directory lie."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.crt"

    def pair(self, name: str) -> tuple[Path, Path]:
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_suffix(path.suffix + f".{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    draft.replace(path)


def ensure_authority(directory: Path, addresses: Sequence[str]) -> Authority:
    """The authority in `directory`, made at the first start, with a server certificate for these addresses."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = Authority(directory)
    wanted = "\n".join(sorted({*_NAMES, "127.0.0.1", "::1", "10.96.0.1", *addresses}))
    named = directory / "server.names"
    if authority.certificate.exists() and named.exists() and named.read_text() == wanted:
        return authority
    signing = importlib.import_module("trimtab.server.auth.signing")
    if not authority.certificate.exists():
        signing.make_authority(authority)
        signing.issue(authority, "admin", "trimtab-admin", ["system:masters"])
    if not named.exists() or named.read_text() != wanted:
        signing.issue(authority, "server", "trimtab-apiserver", [], wanted.split("\n"))
        write_secret(named, wanted.encode())
    return authority
