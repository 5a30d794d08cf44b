"""`trimtab up`: the whole thing in one process, with a fleet to play with."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from trimtab.errors import InputFault

if TYPE_CHECKING:
    from trimtab.simulate.fleet import FleetPlan

NO_FLEET = "--no-fleet"
EXAMPLE = """# A Deployment, and a policy that shares it out over the fleet by the room that each cluster has.
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
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".trimtab"),
    show_default=True,
    help="Where everything is kept.",
)
@click.option("--port", type=int, default=6443, show_default=True, help="Port to serve on; 0 picks a free one.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option("--fleet", "fleet_file", type=click.Path(path_type=Path), help="A file that describes the members.")
@click.option("--clusters", type=click.IntRange(1, 1000), help="So many simulated members of the same size.")
@click.option("--nodes", type=click.IntRange(1, 1000), help="So many nodes in each of them.  [default: 3]")
@click.option(NO_FLEET, is_flag=True, help="No simulated members: join clusters of your own.")
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A controller setting; may be repeated.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", "-v", count=True)
def command(
    data_dir: Path,
    port: int,
    bind: str,
    fleet_file: Path | None,
    clusters: int | None,
    nodes: int | None,
    no_fleet: bool,
    profile: str,
    settings: tuple[str, ...],
    log_format: str,
    verbose: int,
) -> None:
    """Serve the Kubernetes API, run every controller, and simulate a fleet of member clusters.

    What was there is found again at the next start; Ctrl-C ends it.
    """
    from trimtab.cli.commands.controllers import read_settings  # noqa: PLC0415
    from trimtab.cli.support.processes import live_long  # noqa: PLC0415
    from trimtab.telemetry import speak  # noqa: PLC0415

    speak(verbosity=verbose, as_json=log_format == "json")
    plan = asked_for(fleet_file, clusters, nodes, no_fleet=no_fleet)
    house = House(data_dir, bind, port, plan, profile, read_settings(settings))
    live_long(house.live())


def asked_for(
    fleet_file: Path | None, clusters: int | None, nodes: int | None, *, no_fleet: bool
) -> "FleetPlan | None":
    """The fleet that the options describe; None when they leave it open."""
    from trimtab.simulate.fleet import FleetPlan, read_fleet, uniform_fleet  # noqa: PLC0415

    counted = clusters is not None or nodes is not None
    if (fleet_file is not None) + counted + no_fleet > 1:
        raise click.UsageError("give one of --fleet, --clusters with --nodes, and --no-fleet")
    if no_fleet:
        return FleetPlan()
    if fleet_file is not None:
        return read_fleet(fleet_file)
    return uniform_fleet(clusters or 3, nodes or 3) if counted else None


def remembered(path: Path) -> "FleetPlan | None":
    """The fleet of an earlier start."""
    from trimtab.simulate.fleet import FleetPlan  # noqa: PLC0415

    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=FleetPlan)
    except msgspec.MsgspecError as error:
        raise InputFault(f"{path} cannot be read ({error}); delete it to begin with another fleet") from error


class House:
    """Everything that one `trimtab up` runs."""

    def __init__(
        self, data_dir: Path, bind: str, port: int, plan: "FleetPlan | None", profile: str, settings: Mapping[str, Any]
    ) -> None:
        from trimtab.api.profile import PROFILES  # noqa: PLC0415
        from trimtab.app import Embedded  # noqa: PLC0415
        from trimtab.clock import WallClock  # noqa: PLC0415
        from trimtab.runtime.lua_worker import LuaWorker  # noqa: PLC0415
        from trimtab.server.admission.peer_webhooks import PolicyAdmission  # noqa: PLC0415
        from trimtab.server.daemon import Daemon  # noqa: PLC0415
        from trimtab.simulate.fleet import default_fleet  # noqa: PLC0415

        self.daemon = Daemon(data_dir, bind, port, plugins=[PolicyAdmission()])
        self._example = self.daemon.directory / "example.yaml"
        self._plan_file = self.daemon.directory / "fleet.json"
        known = remembered(self._plan_file)
        self._known = {member.name for member in known.members} if known is not None else set()
        if plan is None:
            plan = known if known is not None else default_fleet()
        self._scripts = LuaWorker()
        self.fleet = Embedded(
            plan,
            host=self.daemon.api,
            clock=WallClock(),
            profile=PROFILES[profile],
            settings=settings,
            directory=self.daemon.directory / "members",
            scripts=self._scripts,
        )
        self._plan = plan

    async def live(self) -> None:
        """Start, say so, and stay until told to stop."""
        stopped = asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, stopped.set)
        try:
            await self.open()
            click.echo(self.address())
            await self.start()
            click.echo(self.welcome())
            await stopped.wait()
        finally:
            await self.stop()

    async def open(self) -> None:
        """Serve the API; what is written is kept until the controllers are there."""
        from trimtab.server.mount import Mount  # noqa: PLC0415

        world = self.fleet.world
        self.daemon.app = Mount(self.daemon.api.app, {f"/members/{member.name}": member.server.app for member in world})
        self.daemon.siblings = {member.name: f"/members/{member.name}" for member in world}
        await self.daemon.start()

    async def start(self) -> None:
        """Bring the fleet and the controllers to life."""
        world = self.fleet.world
        await world.start()
        for member in world:
            if member.name not in self._known:  # one that the user has unjoined stays away
                await self.fleet.join(member.plan)
        self._plan_file.write_bytes(msgspec.json.encode(self._plan))
        if not self._example.exists():
            self._example.write_text(EXAMPLE)
        await self.fleet.start_plane()

    async def stop(self) -> None:
        for member in self.fleet.world:
            member.server.app.end_streams()
        await self.fleet.stop_plane()
        await self.daemon.stop()
        await self.fleet.world.stop()
        self._scripts.close()

    def address(self) -> str:
        return f"The API is at {self.daemon.url}\n\n  export KUBECONFIG={self.daemon.kubeconfig}\n"

    def welcome(self) -> str:
        """What to do next."""
        members = [member.name for member in self.fleet.world]
        lines = ["trimtab is ready.", ""]
        if members:
            shown = ", ".join(members[:3]) + (f" and {len(members) - 3} more" if len(members) > 3 else "")
            lines += [
                f"Simulated members: {shown}. In another terminal:",
                "  kubectl get clusters",
                f"  kubectl apply -f {self._example}",
                "  kubectl get deployments,resourcebindings",
                "  trimtab explain deploy/web",
                f"  kubectl --context {members[0]} get pods",
            ]
        else:
            lines.append("No members yet. In another terminal: trimtab join NAME --kubeconfig FILE")
        return "\n".join([*lines, "", "Ctrl-C stops it; everything is found again at the next start."])
