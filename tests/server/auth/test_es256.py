"""ES256 signatures have the form that JSON Web Tokens want."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from trimtab.server.auth import es256
from trimtab.server.auth.token_keys import base64_decode


def test_public_key_has_the_coordinates_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "k.key").write_bytes(es256.make_key())
    key_id, key = es256.load_key(tmp_path / "k.key")
    published = es256.public_key(key, key_id)
    x, y = (int.from_bytes(base64_decode(published[name])) for name in ("x", "y"))
    numbers = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1())
    assert numbers == key.public_key().public_numbers()
    assert (published["alg"], published["kid"]) == ("ES256", key_id)


def test_signature_is_64_bytes_and_fits_its_text_only(tmp_path: Path) -> None:
    (tmp_path / "k.key").write_bytes(es256.make_key())
    _, key = es256.load_key(tmp_path / "k.key")
    signature = es256.sign(key, b"text")
    assert len(signature) == 64
    assert es256.verify(key, b"text", signature)
    assert not es256.verify(key, b"other", signature)
    assert not es256.verify(key, b"text", signature + b"0")
