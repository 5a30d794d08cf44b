"""The file that lets kubectl and every other client in."""

import base64
from pathlib import Path

from trimtab.server.certificates import Authority, write_secret


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def write_kubeconfig(path: Path, authority: Authority, server: str, name: str = "trimtab") -> None:
    """A kubeconfig for the administrator, with everything inside; only its owner can read it."""
    certificate, key = authority.pair("admin")
    text = f"""apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {_inline(authority.certificate)}
users:
- name: {name}-admin
  user:
    client-certificate-data: {_inline(certificate)}
    client-key-data: {_inline(key)}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}-admin
current-context: {name}
"""
    write_secret(path, text.encode())
