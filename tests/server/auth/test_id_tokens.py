from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from server.auth.fake_issuer import CLIENT, FakeIssuer, base64_text, number_text
from trimtab.server.auth.id_tokens import IdTokens, InvalidIdToken, OidcClaims, is_signed, public_key

NOW = datetime(2026, 11, 16, 16, 0, tzinfo=UTC)
TIME = NOW.timestamp()


@pytest.fixture(scope="module")
def issuer() -> FakeIssuer:
    return FakeIssuer()


def tokens_of(issuer: FakeIssuer, **claims: str) -> IdTokens:
    tokens = IdTokens(OidcClaims(issuer.url, CLIENT, **claims), lambda: NOW)
    tokens.replace_keys(issuer.keys())
    return tokens


def test_claims_name_the_user_and_the_groups_with_a_prefix(issuer: FakeIssuer) -> None:
    user = tokens_of(issuer).user(issuer.token(TIME, groups=["ops", "dev"]))
    assert (user.name, user.groups) == ("oidc:ada", ("oidc:ops", "oidc:dev", "system:authenticated"))


def test_prefixes_can_be_removed_and_claims_chosen(issuer: FakeIssuer) -> None:
    tokens = tokens_of(issuer, username_claim="email", username_prefix="-", groups_claim="roles", groups_prefix="-")
    user = tokens.user(issuer.token(TIME, email="ada@shop.example", roles="ops"))
    assert (user.name, user.groups) == ("ada@shop.example", ("ops", "system:authenticated"))


def test_a_claim_never_gives_a_group_or_a_name_of_kubernetes(issuer: FakeIssuer) -> None:
    tokens = tokens_of(issuer, username_prefix="-", groups_prefix="-")
    assert tokens.user(issuer.token(TIME, groups=["system:masters"])).groups == ("system:authenticated",)
    with pytest.raises(InvalidIdToken, match="reserved"):
        tokens.user(issuer.token(TIME, sub="system:admin"))


def test_email_that_is_not_verified_names_nobody(issuer: FakeIssuer) -> None:
    tokens = tokens_of(issuer, username_claim="email")
    with pytest.raises(InvalidIdToken, match="not verified"):
        tokens.user(issuer.token(TIME, email="ada@shop.example", email_verified=False))


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"aud": "other"}, "for another client"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "given to another client"),
        ({"exp": TIME}, "expired"),
        ({"exp": None}, "expired"),
        ({"exp": True}, "expired"),
        ({"nbf": TIME + 120}, "not valid yet"),
        ({"iat": TIME + 120}, "not valid yet"),
    ],
)
def test_token_that_is_not_for_now_and_us_is_refused(
    issuer: FakeIssuer, claims: dict[str, object], reason: str
) -> None:
    with pytest.raises(InvalidIdToken, match=reason):
        tokens_of(issuer).verify(issuer.token(TIME, **claims))


def test_token_of_another_sign_in_is_refused(issuer: FakeIssuer) -> None:
    tokens = tokens_of(issuer)
    assert tokens.verify(issuer.token(TIME, nonce="a"), "a")["sub"] == "ada"
    with pytest.raises(InvalidIdToken, match="another sign-in"):
        tokens.verify(issuer.token(TIME, nonce="b"), "a")


def test_changed_claims_and_other_algorithms_are_refused(issuer: FakeIssuer) -> None:
    tokens = tokens_of(issuer)
    head, _, signature = issuer.token(TIME).split(".")
    _, other, _ = issuer.token(TIME, sub="eve").split(".")
    for token in (
        f"{head}.{other}.{signature}",
        issuer.token(TIME, {"alg": "none"}),
        issuer.token(TIME, {"alg": "HS256"}),
        issuer.token(TIME, {"alg": "PS256"}),
        issuer.token(TIME, {"alg": "ES256"}),
    ):
        with pytest.raises(InvalidIdToken, match="signature"):
            tokens.verify(token)


def test_key_that_is_not_known_is_asked_for(issuer: FakeIssuer) -> None:
    asked: list[bool] = []
    tokens = tokens_of(issuer)
    tokens.add_key_reader(lambda: asked.append(True))
    with pytest.raises(InvalidIdToken, match="does not publish"):
        tokens.verify(issuer.token(TIME, {"kid": "new"}))
    assert asked


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c", "!.!.!", "e30.W10.", "." * 9, "x" * 100_000])
def test_what_is_no_token_is_refused(issuer: FakeIssuer, text: str) -> None:
    tokens = tokens_of(issuer)
    assert not tokens.is_of_issuer(text)
    with pytest.raises(InvalidIdToken):
        tokens.verify(text)


def test_elliptic_curve_signatures_are_verified() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    numbers = key.public_key().public_numbers()
    jwk = {"kty": "EC", "crv": "P-256", "x": number_text(numbers.x), "y": number_text(numbers.y)}
    found = public_key(jwk)
    assert found is not None
    first, second = decode_dss_signature(key.sign(b"text", ec.ECDSA(hashes.SHA256())))
    signature = first.to_bytes(32) + second.to_bytes(32)
    assert is_signed("ES256", found, b"text", signature)
    assert not is_signed("ES256", found, b"other", signature)
    assert not is_signed("ES256", found, b"text", signature[:-1])
    assert not is_signed("ES384", found, b"text", signature)
    assert not is_signed("RS256", found, b"text", signature)


@pytest.mark.parametrize(
    "jwk",
    [
        {"kty": "RSA"},
        {"kty": "RSA", "e": "AQAB", "n": base64_text(b"\xff" * 128)},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "oct", "k": "AA"},
        {"kty": "RSA", "e": "AQAB", "n": "!"},
    ],
)
def test_short_and_damaged_keys_are_left_out(jwk: dict[str, str]) -> None:
    assert public_key(jwk) is None
