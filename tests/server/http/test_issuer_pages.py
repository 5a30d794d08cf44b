"""The pages of the token issuer exist where tokens can be verified by others, and only for accounts."""

from pathlib import Path

from trimtab.server.auth.token_keys import KeyRing
from trimtab.server.http.issuer_pages import DISCOVERY_PATH, KEYS_PATH, IssuerPages
from trimtab.server.request.messages import Request


def test_other_paths_and_methods_are_not_served(tmp_path: Path) -> None:
    pages = IssuerPages(KeyRing(tmp_path))
    assert pages(Request("GET", "/openid/v1/other", {}, {})).code == 404
    assert pages(Request("POST", KEYS_PATH, {}, {})).code == 404
    assert pages(Request("GET", "/.well-known/other", {}, {})).code == 404


def test_keys_and_discovery_are_public_data_without_private_parts(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    ring.sign(b"{}")
    pages = IssuerPages(ring)
    keys = pages(Request("GET", KEYS_PATH, {}, {}))
    assert (keys.code, keys.media_type) == (200, "application/jwk-set+json")
    assert b'"d"' not in keys.body
    discovery = pages(Request("GET", DISCOVERY_PATH, {}, {}, server_address="10.0.0.1:6443"))
    assert b'"jwks_uri":"https://10.0.0.1:6443/openid/v1/jwks"' in discovery.body
