"""A control plane, its API server and a simulated fleet in one process, with data in a directory."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from trimtab.api.profile import PROFILES
from trimtab.app import EmbeddedFleet
from trimtab.clock import WallClock
from trimtab.errors import InputError
from trimtab.runtime.lua_worker import LuaWorker
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.daemon import Daemon
from trimtab.server.flowcontrol.controller import FlowLimits
from trimtab.server.mount import Mount
from trimtab.server.storage.field_renames import rename_fields
from trimtab.simulate.fleet import FleetPlan, default_fleet
from trimtab.store.files import replace_file

log = logging.getLogger("trimtab.local_fleet")


class LocalFleet:
    """Everything that `trimtab up` runs; `open`, then `start`, at the end `stop`."""

    def __init__(
        self,
        data_dir: Path,
        bind: str,
        port: int,
        plan: FleetPlan | None,
        profile: str,
        settings: Mapping[str, Any],
        flow_control: FlowLimits = FlowLimits(),  # noqa: B008 - a frozen value
    ) -> None:
        self.daemon = Daemon(data_dir, bind, port, plugins=[PeerWebhooks()], flow_control=flow_control)
        self._plan_file = self.daemon.directory / "fleet.json"
        stored = read_stored_plan(self._plan_file)
        self._stored = {member.name for member in stored.members} if stored is not None else set()
        if plan is None:
            plan = stored if stored is not None else default_fleet()
        self._scripts = LuaWorker()
        self.fleet = EmbeddedFleet(
            plan,
            host=self.daemon.api,
            clock=WallClock(),
            profile=PROFILES[profile],
            settings=settings,
            directory=self.daemon.directory / "members",
            scripts=self._scripts,
        )
        self._plan = plan

    @property
    def members(self) -> list[str]:
        return [member.name for member in self.fleet.world]

    async def open(self) -> None:
        """Serve the API; objects can be written before the controllers run."""
        world = self.fleet.world
        for member in world:  # one caller has the same share of this process, whichever API server it calls
            member.server.app.flow_control = self.daemon.api.flow_control
        self.daemon.app = Mount(self.daemon.api.app, {f"/members/{member.name}": member.server.app for member in world})
        self.daemon.mounted_servers = {member.name: f"/members/{member.name}" for member in world}
        await self.daemon.start()

    async def start(self) -> None:
        """Start the members and the controllers, and join the members that are new in the plan."""
        world = self.fleet.world
        await world.start()
        for member in world:
            if member.name not in self._stored:  # a member that the user has unjoined stays unjoined
                await self.fleet.join(member.plan)
        self._store_plan()
        await self.fleet.start_plane()

    def _store_plan(self) -> None:
        """Store the fleet for the next start; a full disk keeps the file of the previous one."""
        content = msgspec.json.encode(self._plan)
        if self._plan_file.exists() and self._plan_file.read_bytes() == content:
            return
        try:
            replace_file(self._plan_file, content)
        except OSError as error:
            log.warning(
                "%s was not written (%s): the next start has the fleet of an earlier one", self._plan_file, error
            )

    async def stop(self) -> None:
        for member in self.fleet.world:
            member.server.app.end_streams()
        await self.fleet.stop_plane()
        await self.daemon.stop()
        await self.fleet.world.stop()
        self._scripts.close()


def read_stored_plan(path: Path) -> FleetPlan | None:
    """The fleet of the previous start."""
    if not path.exists():
        return None
    try:
        stored = rename_fields(msgspec.json.decode(path.read_bytes()), {("binder",): "scheduler"})
        return msgspec.convert(stored, FleetPlan)
    except msgspec.MsgspecError as error:
        raise InputError(f"cannot read {path}: {error}; delete it to start with another fleet") from error
