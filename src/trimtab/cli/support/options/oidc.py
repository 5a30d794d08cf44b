"""The options of commands whose users sign in at an OpenID Connect issuer."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.errors import InputError, unreadable

if TYPE_CHECKING:
    from trimtab.server.auth.oidc_issuer import OidcIssuer

DEFAULT_SCOPES = "openid,profile,email,groups,offline_access"
CLAIM_OPTIONS = (
    click.option(
        "--oidc-username-claim", default="sub", show_default=True, metavar="NAME", help="Claim that names the user."
    ),
    click.option(
        "--oidc-username-prefix",
        default="oidc:",
        show_default=True,
        metavar="TEXT",
        help="Put before names of users; - for nothing.",
    ),
    click.option(
        "--oidc-groups-claim", default="groups", show_default=True, metavar="NAME", help="Claim that lists the groups."
    ),
    click.option(
        "--oidc-groups-prefix",
        default="oidc:",
        show_default=True,
        metavar="TEXT",
        help="Put before names of groups; - for nothing.",
    ),
)
CLIENT_OPTIONS = (
    click.option(
        "--oidc-issuer-url",
        default="",
        metavar="URL",
        help="OpenID Connect issuer at which users sign in to the console, and whose ID tokens the API accepts.",
    ),
    click.option("--oidc-client-id", default="", metavar="ID", help="The client that the tokens are issued for."),
    click.option(
        "--oidc-client-secret-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with the secret of the client; a public client has none.",
    ),
    click.option(
        "--oidc-ca-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Certificates, in PEM, that the issuer is verified with instead of those of the system.",
    ),
    click.option(
        "--oidc-scopes", default=DEFAULT_SCOPES, show_default=True, metavar="NAME,...", help="Scopes to ask for."
    ),
    click.option(
        "--oidc-redirect-url",
        default="",
        metavar="URL",
        help="Where the issuer sends browsers back to.  [default: /console/login/callback at the address they use]",
    ),
)


def oidc_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All options, for a command whose API server maps the claims."""
    for option in reversed((*CLIENT_OPTIONS, *CLAIM_OPTIONS)):
        command = option(command)
    return command


def oidc_client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a console alone; another API server maps the claims."""
    for option in reversed(CLIENT_OPTIONS):
        command = option(command)
    return command


def oidc_issuer(
    *,
    oidc_issuer_url: str,
    oidc_client_id: str,
    oidc_client_secret_file: Path | None,
    oidc_ca_file: Path | None,
    oidc_scopes: str,
    oidc_redirect_url: str,
    **claims: str,
) -> "OidcIssuer | None":
    """The issuer that the options describe; None without an address."""
    if not oidc_issuer_url:
        if oidc_client_id or oidc_client_secret_file is not None or oidc_ca_file is not None:
            raise click.UsageError("the options --oidc-* need --oidc-issuer-url")
        return None
    if not oidc_client_id:
        raise click.UsageError("--oidc-issuer-url needs --oidc-client-id")
    from trimtab.clock import WallClock  # noqa: PLC0415
    from trimtab.server.auth.id_tokens import IdTokens, OidcClaims  # noqa: PLC0415
    from trimtab.server.auth.oidc_issuer import OidcClient, OidcIssuer, check_https  # noqa: PLC0415

    if oidc_redirect_url:
        check_https(oidc_redirect_url, "--oidc-redirect-url")
    named = {name.removeprefix("oidc_"): value for name, value in claims.items()}
    scopes = tuple(scope for scope in oidc_scopes.split(",") if scope)
    secret = read_file(oidc_client_secret_file).decode("utf-8", "replace").strip()
    client = OidcClient(oidc_client_id, secret, tuple(dict.fromkeys(("openid", *scopes))), oidc_redirect_url)
    tokens = IdTokens(OidcClaims(oidc_issuer_url, oidc_client_id, **named), WallClock().now)
    return OidcIssuer(client, tokens, read_file(oidc_ca_file))


def read_file(path: Path | None) -> bytes:
    """The content of a file that must not be empty; nothing without a path."""
    if path is None:
        return b""
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise unreadable(path, fault) from fault
    if not content.strip():
        raise InputError(f"{path} is empty")
    return content
