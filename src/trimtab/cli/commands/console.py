"""`trimtab console`: the web console of a control plane on a real Kubernetes."""

from pathlib import Path
from typing import Any, NamedTuple

import click

from trimtab.api.profile import PROFILES
from trimtab.cli.commands.controllers import run_until_signalled
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.options.oidc import oidc_client_options, oidc_issuer
from trimtab.cli.support.options.serving import bind_option, port_option
from trimtab.cli.support.options.settings import parse_settings
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, load
from trimtab.clock import WallClock
from trimtab.console.application import Console
from trimtab.console.code_flow import CodeFlow
from trimtab.console.page import Services
from trimtab.console.permissions import RemoteAuthority, UserClients
from trimtab.runtime.cache import Cache
from trimtab.runtime.declarations import load_declarations
from trimtab.server.auth.certificates import ensure_authority, make_private
from trimtab.server.auth.oidc_issuer import OidcIssuer
from trimtab.server.flowcontrol.controller import FlowController
from trimtab.server.http.listener import Listener
from trimtab.server.http.paced_application import PacedApplication
from trimtab.server.http.probe_pages import ProbePages
from trimtab.server.mount import Mount
from trimtab.telemetry import configure_logging


@click.command()
@kubeconfig_options
@port_option(7443)
@bind_option
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".trimtab-console"),
    show_default=True,
    help="Directory for the certificate, the sessions and the history of decisions.",
)
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Controller setting; can be repeated.")
@click.option("--read-only", is_flag=True, help="Offer no actions, whatever the rights of a user.")
@click.option("--no-login-link", is_flag=True, help="Print no link that signs in with the rights of the kubeconfig.")
@oidc_client_options
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", "-v", count=True)
def command(
    kubeconfig: str,
    context: str,
    port: int,
    bind: str,
    data_dir: Path,
    profile: str,
    settings: tuple[str, ...],
    read_only: bool,
    no_login_link: bool,
    log_format: str,
    verbose: int,
    **sign_in: Any,
) -> None:
    """Serve the web console for the API server of a kubeconfig.

    The kubeconfig needs to list and watch what the pages show. Users sign in with their own bearer tokens, or at the
    OpenID Connect issuer that the API server accepts as well; they see and do what the API server allows them. The
    link that is printed signs in once, with the rights of the kubeconfig.
    """
    configure_logging(verbosity=verbose, as_json=log_format == "json")
    load_declarations()
    services = Services(profile=PROFILES[profile], settings=parse_settings(settings), is_read_only=read_only)
    process = ConsoleProcess(load(kubeconfig or None, context), data_dir.absolute(), services, oidc_issuer(**sign_in))
    run_until_signalled(process.serve(bind, port, with_login_link=not no_login_link))


class ConsoleProcess(NamedTuple):
    """One process of `trimtab console`."""

    credentials: Credentials
    directory: Path
    services: Services
    issuer: OidcIssuer | None

    async def serve(self, bind: str, port: int, *, with_login_link: bool) -> None:
        client = KubeClient(self.credentials, agent="trimtab-console")
        cache = Cache(client)
        make_private(self.directory)
        if self.issuer is not None:
            self.issuer.start()
        console = self._new_console()
        console.attach(cache)
        pages = ProbePages({"/healthz": lambda: (200, "ok\n")})
        paced = PacedApplication(console, FlowController(), console.user_of)
        authority = ensure_authority(self.directory / "pki", [bind])
        listener = Listener(Mount(pages, {"/console": paced}), bind, port, authority)
        await listener.start()
        try:
            await console.start()
            host = f"[{bind}]" if ":" in bind else {"0.0.0.0": "127.0.0.1"}.get(bind, bind)  # noqa: S104 - compared
            user = self.credentials.context or "kubeconfig"
            path = console.login_path(user, "") if with_login_link else "/console/"
            click.echo(f"Console: https://{host}:{listener.port}{path}")
            await console.wait()
        finally:
            console.end_streams()
            await listener.stop()
            await console.close()
            await cache.close()
            await client.close()

    def _new_console(self) -> Console:
        now = WallClock().now
        return Console(
            RemoteAuthority(UserClients(lambda: self.credentials)),
            now,
            services=self.services,
            session_file=self.directory / "console-sessions.json",
            history_file=self.directory / "decisions.jsonl",
            code_flow=CodeFlow(self.issuer, now) if self.issuer is not None else None,
        )
