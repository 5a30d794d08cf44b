"""Addresses of other API servers: how they are verified, and which may be called."""

import asyncio
import base64
import ipaddress
import socket
import ssl
from pathlib import Path
from typing import NamedTuple


class CannotReach(Exception):
    """The server cannot be reached, or its answer is not usable; the text says why."""


class Address(NamedTuple):
    """Where a server is, and how it is verified."""

    host: str
    port: int
    server_name: str
    """The name that its certificate must have."""
    bundle: str = ""
    """Certificates in base64 to verify it with; empty for those of the system."""
    insecure: bool = False
    """Do not verify it."""


class ClientFiles(NamedTuple):
    """The certificate and key with which this server authenticates itself as a front proxy."""

    certificate: Path
    key: Path
    authority: str
    """The certificate, in PEM, with which other servers verify it."""


async def resolve(host: str, port: int) -> str:
    """An address of a host that may be called; link-local ones, where clouds serve credentials, may not.

    The connection is made to the address that was checked, so that a second answer of the name server does not count.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, (address, *_) in found:
        if is_allowed(str(address)):
            return str(address)
    raise CannotReach(f"{host} has no address that may be called")


def is_allowed(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    called = mapped or parsed
    return not (called.is_link_local or called.is_multicast or called.is_unspecified)


def tls_context(address: Address, files: ClientFiles) -> ssl.SSLContext:
    try:
        text = base64.b64decode(address.bundle).decode() if address.bundle else None
        context = ssl.create_default_context(cadata=text)
        context.load_cert_chain(files.certificate, files.key)
    except (ValueError, OSError) as fault:
        raise CannotReach(f"unable to load certificates: {fault}") from None
    if address.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
