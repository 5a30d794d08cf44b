"""Addresses of other API servers: which may be called."""

import asyncio

import pytest

from trimtab.server.aggregation.remote_address import CannotReach, is_allowed, resolve


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.0.0.1", True),
        ("127.0.0.1", True),
        ("169.254.169.254", False),
        ("::ffff:169.254.169.254", False),
        ("fe80::1%eth0", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("fd00::1", True),
    ],
)
def test_addresses_where_clouds_serve_credentials_are_not_called(address: str, allowed: bool) -> None:
    assert is_allowed(address) == allowed


def test_host_is_resolved_to_an_address_that_may_be_called() -> None:
    assert asyncio.run(resolve("127.0.0.1", 443)) == "127.0.0.1"
    with pytest.raises(CannotReach, match="no address that may be called"):
        asyncio.run(resolve("169.254.169.254", 80))
