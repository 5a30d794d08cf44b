"""Keys of service account tokens rotate without invalidating tokens, and nobody else's signature is accepted."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trimtab.errors import InputError
from trimtab.server.auth import token_keys
from trimtab.server.auth.token_keys import (
    KEY_LIFETIME,
    KeyRing,
    SharedSecret,
    base64_decode,
    base64_encode,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CLAIMS = b'{"sub":"system:serviceaccount:default:builder"}'


def key_id_of(token: str) -> str:
    return str(json.loads(base64_decode(token.partition(".")[0]))["kid"])


def test_token_stays_valid_after_a_rotation_and_new_ones_use_the_new_key(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    before = ring.sign(CLAIMS)
    new_key = ring.rotate(datetime.now(UTC) + timedelta(seconds=1))
    after = ring.sign(CLAIMS)
    assert key_id_of(after) == new_key != key_id_of(before)
    assert ring.verified_claims(before) == ring.verified_claims(after) == CLAIMS
    assert [key["kid"] for key in ring.public_keys()["keys"]] == [key_id_of(before), new_key]


def test_another_process_adds_a_key_that_is_used_at_once(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    ring.sign(CLAIMS)
    new_key = KeyRing(tmp_path).rotate(datetime.now(UTC) + timedelta(seconds=1))
    assert key_id_of(ring.sign(CLAIMS)) == new_key


def test_tokens_of_a_removed_key_are_refused_at_the_next_issue(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    token = ring.sign(CLAIMS)
    assert ring.verified_claims(token) == CLAIMS
    for path in tmp_path.glob("*.key"):
        path.unlink()
    ring.rotate(NOW)
    assert ring.verified_claims(token) is None


def test_changed_claims_foreign_keys_and_garbage_are_refused(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "ours")
    head, _, signature = ring.sign(CLAIMS).split(".")
    changed = base64_encode(CLAIMS.replace(b"builder", b"admin"))
    forged = KeyRing(tmp_path / "theirs").sign(CLAIMS)
    no_algorithm = base64_encode(json.dumps({"alg": "none"}).encode())
    unsigned = f"{no_algorithm}.{base64_encode(CLAIMS)}."
    with_public_key = SharedSecret(json.dumps(ring.public_keys()).encode()).sign(CLAIMS)
    for token in (
        f"{head}.{changed}.{signature}",
        forged,
        unsigned,
        with_public_key,
        "",
        "a.b.c",
        f"{head}..{signature}",
    ):
        assert ring.verified_claims(token) is None


def test_tokens_of_the_earlier_secret_stay_valid_and_only_those(tmp_path: Path) -> None:
    earlier = SharedSecret(b"from version 0.1")
    ring = KeyRing(tmp_path, earlier)
    assert ring.verified_claims(earlier.sign(CLAIMS)) == CLAIMS
    assert ring.verified_claims(SharedSecret(b"another").sign(CLAIMS)) is None
    assert KeyRing(tmp_path).verified_claims(earlier.sign(CLAIMS)) is None
    assert key_id_of(ring.sign(CLAIMS))


def test_keys_are_made_at_intervals(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    assert ring.rotate_if_old(NOW)
    assert not ring.rotate_if_old(NOW + KEY_LIFETIME - timedelta(seconds=1))
    assert ring.rotate_if_old(NOW + KEY_LIFETIME)
    assert len(list(tmp_path.glob("*.key"))) == 2


def test_private_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    KeyRing(tmp_path / "keys").rotate(NOW)
    (key,) = (tmp_path / "keys").glob("*.key")
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_damaged_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.key").write_text("no key")
    with pytest.raises(InputError, match=r"a\.key is damaged"):
        KeyRing(tmp_path).public_keys()


def test_token_of_the_earlier_secret_is_accepted_only_with_its_algorithm(tmp_path: Path) -> None:
    earlier = SharedSecret(b"s" * 32)
    ring = KeyRing(tmp_path, earlier)
    assert ring.verified_claims(earlier.sign(CLAIMS)) == CLAIMS
    text = f"{base64_encode(json.dumps({'alg': 'none'}).encode())}.{base64_encode(CLAIMS)}"
    signature = base64_encode(hmac.new(b"s" * 32, text.encode(), hashlib.sha256).digest())
    assert earlier.verified_claims(f"{text}.{signature}") == CLAIMS
    assert ring.verified_claims(f"{text}.{signature}") is None


def test_remembered_tokens_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_keys, "_REMEMBERED_TOKENS", 2)
    ring = KeyRing(tmp_path)
    for number in range(5):
        assert ring.verified_claims(ring.sign(b"%d" % number)) == b"%d" % number
    assert len(ring._verified) == 2
