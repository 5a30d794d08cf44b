"""`trimtab up`: API server, controllers and a simulated fleet in one process."""

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.api.wording import plural
from trimtab.cli.support.options.audit import audit_options, take_audit_settings
from trimtab.cli.support.options.controller_selection import controllers_option, enabled_controllers
from trimtab.cli.support.options.encryption import encryption_option
from trimtab.cli.support.options.flow_control import flow_control_options, flow_limits
from trimtab.cli.support.options.notifications import notification_options, webhook_target
from trimtab.cli.support.options.oidc import oidc_issuer, oidc_options
from trimtab.cli.support.options.serving import bind_option, new_data_dir_option, port_option
from trimtab.cli.support.options.simulated_fleet import simulated_fleet_options, take_fleet
from trimtab.cli.support.options.traces import trace_options, trace_target

if TYPE_CHECKING:
    from trimtab.dryrun.fleet_state import FleetState
    from trimtab.local_fleet import LocalFleet

EXAMPLE = """# A Deployment, and a policy that divides its replicas by the available capacity of each cluster.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx
        resources: {requests: {cpu: 100m, memory: 64Mi}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
"""


@click.command()
@new_data_dir_option(".trimtab")
@port_option(6443)
@bind_option
@simulated_fleet_options
@click.option(
    "--pull", type=click.IntRange(0, 1000), help="Number of members in Pull mode, the last ones.  [default: 0]"
)
@click.option(
    "--system-workloads",
    is_flag=True,
    help="Run DNS, proxies and a control plane as pods in every member, as kubeadm does.",
)
@click.option("--context", "contexts", multiple=True, help="Further kubeconfig context for the API; can be repeated.")
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@controllers_option
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Controller setting; can be repeated.")
@click.option(
    "--stories",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("stories"),
    show_default=True,
    help="Directory of the stories that the console plays.",
)
@click.option(
    "--console",
    "console_mode",
    type=click.Choice(["on", "read-only", "off"]),
    default="on",
    show_default=True,
    help="Serve the web console, serve it without actions, or do not serve it.",
)
@click.option(
    "--allow-no-execute-taint-policy", is_flag=True, help="Allow ClusterTaintPolicies with taints that evict workloads."
)
@click.option(
    "--bootstrap-tokens",
    is_flag=True,
    help="Let clusters register themselves with bootstrap tokens, as with `karmadactl register`.",
)
@click.option("--feature-gates", default="", metavar="NAME=BOOL,...", help="Feature gates by the names of Karmada.")
@notification_options
@trace_options
@oidc_options
@flow_control_options
@audit_options
@encryption_option
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", "-v", count=True)
def command(
    data_dir: Path,
    port: int,
    bind: str,
    pull: int | None,
    system_workloads: bool,
    contexts: tuple[str, ...],
    profile: str,
    selected_controllers: str,
    settings: tuple[str, ...],
    stories: Path,
    console_mode: str,
    allow_no_execute_taint_policy: bool,
    bootstrap_tokens: bool,
    feature_gates: str,
    notify_url: str,
    notify_secret_file: Path | None,
    trace_endpoint: str,
    trace_ratio: float,
    log_format: str,
    verbose: int,
    encryption: Path | None,
    **further: Any,
) -> None:
    """Serve the Kubernetes API, run the controllers, and simulate a fleet of member clusters.

    All data is kept in the data directory. Ctrl-C stops the process.
    """
    from trimtab.cli.support.options.feature_gates import parse_feature_gates  # noqa: PLC0415
    from trimtab.cli.support.options.settings import parse_settings  # noqa: PLC0415
    from trimtab.cli.support.processes import run_process  # noqa: PLC0415
    from trimtab.cli.support.story_book import StoryDirectory  # noqa: PLC0415
    from trimtab.local_fleet import LocalFleet, LocalFleetOptions  # noqa: PLC0415
    from trimtab.telemetry import configure_logging  # noqa: PLC0415

    configure_logging(verbosity=verbose, as_json=log_format == "json")
    plan, saved = take_fleet(further, data_dir)
    sign_in = {name: further.pop(name) for name in list(further) if name.startswith("oidc_")}
    audit = take_audit_settings(further)
    saved_settings = saved.settings if saved is not None else {}
    controller_settings = {**saved_settings, **parse_feature_gates(feature_gates), **parse_settings(settings)}
    options = LocalFleetOptions(
        flow_control=flow_limits(**further),
        contexts=contexts,
        audit=audit,
        encryption=encryption,
        pull=pull,
        system_workloads=system_workloads,
        console_mode=console_mode,
        allow_no_execute_taints=allow_no_execute_taint_policy,
        bootstrap_tokens=bootstrap_tokens,
        notify=webhook_target(notify_url, notify_secret_file),
        trace=trace_target(trace_endpoint, trace_ratio),
        oidc=oidc_issuer(**sign_in),
        is_enabled=enabled_controllers(selected_controllers),
        stories=StoryDirectory(stories.absolute(), data_dir / "story-verdicts.json") if stories.is_dir() else None,
    )
    fleet = LocalFleet(data_dir, bind, port, plan, profile, controller_settings, options)
    run_process(serve(fleet, saved))


async def load_saved_fleet(fleet: "LocalFleet", saved: "FleetState") -> None:
    from trimtab.stories.saved_fleet import load_saved_state  # noqa: PLC0415

    loaded = await load_saved_state(fleet.fleet, saved)
    fleet.attach_console()
    click.echo(f"Loaded {plural(loaded.objects, 'object')} of the snapshot of {saved.now:%Y-%m-%d %H:%M:%SZ}.")
    for name in loaded.skipped:
        click.echo(f"Warning: {name} is left out: no server knows its kind, or it would configure the server", err=True)


async def serve(fleet: "LocalFleet", saved: "FleetState | None" = None) -> None:
    """Start the fleet, print how to reach it, and run until SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    example = fleet.daemon.directory / "example.yaml"
    try:
        await fleet.open()
        click.echo(address_text(fleet.daemon.url, fleet.daemon.kubeconfig))
        write_example(example)
        await fleet.start()
        if saved is not None:
            await load_saved_fleet(fleet, saved)
        click.echo(welcome_text(fleet.members, example))
        if url := fleet.console_url:
            click.echo(f"\nConsole: {url}")
        if fleet.reason_to_observe:
            click.echo(
                f"\nThe controllers do not run ({fleet.reason_to_observe}): trimtab observe lists what they would write in "
                "the members, trimtab release starts them."
            )
        await stopped.wait()
    finally:
        await fleet.stop()


def write_example(path: Path) -> None:
    """Write the example unless it is there; without room on the disk there is none."""
    from trimtab.store.files import replace_file  # noqa: PLC0415

    if not path.exists():
        with contextlib.suppress(OSError):
            replace_file(path, EXAMPLE.encode(), mode=0o644)


def address_text(url: str, kubeconfig: Path) -> str:
    """How another terminal reaches the API, and the command where its PATH does not have it."""
    command = Path(sys.argv[0]).absolute()
    if command.name == "__main__.py":  # started with `python -m trimtab`
        command = Path(sys.executable).with_name("trimtab")
    path = f"  export PATH={command.parent}:$PATH\n" if shutil.which(command.name) is None and command.exists() else ""
    return f"The API is at {url}\n\n  export KUBECONFIG={kubeconfig}\n{path}"


def welcome_text(members: Sequence[str], example: Path) -> str:
    """The commands to try next."""
    lines = ["trimtab is ready.", ""]
    if members:
        names = ", ".join(members[:3]) + (f" and {len(members) - 3} more" if len(members) > 3 else "")
        lines += [
            f"Simulated members: {names}. In another terminal:",
            "  kubectl get clusters",
            f"  kubectl apply -f {example}",
            "  kubectl get deployments,resourcebindings",
            "  trimtab explain deploy/web",
            f"  kubectl --context {members[0]} get pods",
        ]
    else:
        lines.append("There are no members. In another terminal: trimtab join NAME --kubeconfig FILE")
    return "\n".join([*lines, "", "Ctrl-C stops it. The next start uses the same data."])
