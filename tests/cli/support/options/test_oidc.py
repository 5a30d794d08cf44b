from pathlib import Path

import click
import pytest

from trimtab.cli.support.options.oidc import oidc_issuer
from trimtab.errors import InputError

NOTHING = {
    "oidc_issuer_url": "",
    "oidc_client_id": "",
    "oidc_client_secret_file": None,
    "oidc_ca_file": None,
    "oidc_scopes": "groups",
    "oidc_redirect_url": "",
}
ISSUER = {**NOTHING, "oidc_issuer_url": "https://issuer.example", "oidc_client_id": "trimtab"}


def test_without_an_address_there_is_no_issuer() -> None:
    assert oidc_issuer(**NOTHING) is None


def test_options_describe_the_issuer(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    found = oidc_issuer(**{**ISSUER, "oidc_client_secret_file": secret}, oidc_groups_prefix="-")
    assert found is not None
    assert (found.client.secret, found.client.scopes) == ("s3cret", ("openid", "groups"))
    assert found.id_tokens.claims.groups_prefix == "-"


@pytest.mark.parametrize("options", [{"oidc_client_id": "trimtab"}, {"oidc_issuer_url": "https://issuer.example"}])
def test_half_of_the_options_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(click.UsageError, match="need"):
        oidc_issuer(**{**NOTHING, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"oidc_issuer_url": "http://issuer.example"}, "must be an https address"),
        ({"oidc_redirect_url": "console.example"}, "must be an https address"),
        ({"oidc_ca_file": Path("/nonexistent")}, "cannot read /nonexistent"),
    ],
)
def test_unusable_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        oidc_issuer(**{**ISSUER, **options})
