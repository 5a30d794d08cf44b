"""Writes the administrator's kubeconfig."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path

from trimtab.server.auth.certificates import CertificateAuthority, write_secret


def _base64_file(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def write_kubeconfig(path: Path, authority: CertificateAuthority, servers: Mapping[str, str]) -> None:
    """Write a self-contained kubeconfig for the administrator that only its owner can read.

    There is a context for each server, by its name; the first one is the current context. A file that has this content
    is not written again, so that a restart needs no room on the disk.
    """
    content = "".join(_kubeconfig_lines(authority, servers)).encode()
    if path.exists() and path.read_bytes() == content:
        path.chmod(0o600)
    else:
        write_secret(path, content)


def _kubeconfig_lines(authority: CertificateAuthority, servers: Mapping[str, str]) -> Iterator[str]:
    certificate, key = authority.certificate_and_key("admin")
    trusted = _base64_file(authority.certificate)
    yield "apiVersion: v1\nkind: Config\nclusters:\n"
    for name, server in servers.items():
        yield f"- name: {name}\n  cluster:\n    server: {server}\n    certificate-authority-data: {trusted}\n"
    yield "users:\n- name: trimtab-admin\n  user:\n"
    yield f"    client-certificate-data: {_base64_file(certificate)}\n    client-key-data: {_base64_file(key)}\n"
    yield "contexts:\n"
    for name in servers:
        yield f"- name: {name}\n  context:\n    cluster: {name}\n    user: trimtab-admin\n"
    yield f"current-context: {next(iter(servers))}\n"
