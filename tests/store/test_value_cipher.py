"""Encrypted values are told from readable ones."""

from trimtab.store.value_cipher import SEALED_MARK, is_sealed


def test_no_object_begins_like_an_encrypted_value() -> None:
    assert is_sealed(SEALED_MARK + b"x")
    assert not is_sealed(b"{}")
    assert not is_sealed(None)
