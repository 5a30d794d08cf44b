"""The processes of the chaos test: `trimtab` as users run it, or one simulated member, with a clock that can jump.

The clock adds the number of seconds in the file named by SOAK_CLOCK to the time of the machine.
"""

import asyncio
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.cli.main import main
from trimtab.clock import WallClock
from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.auth.kubeconfig import write_kubeconfig
from trimtab.server.http.listener import Listener
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.world import World
from trimtab.telemetry import configure_logging

REREAD_SECONDS = 0.2
LOOPBACK = "127.0.0.1"


class JumpingTime:
    """The time of the machine plus the offset in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = timedelta()
        self._read_at = 0.0

    def now(self) -> datetime:
        if time.monotonic() - self._read_at >= REREAD_SECONDS:
            self._read_at = time.monotonic()
            self._offset = timedelta(seconds=float(self._file.read_text() or 0)) if self._file.exists() else timedelta()
        return datetime.now(UTC) + self._offset


async def serve_member(name: str, directory: Path, port: int) -> None:
    """Serve one simulated member until SIGTERM; its data is kept in the directory."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    plan = FleetPlan(members=(MemberPlan(name=name, nodes=2),), pace="typical")
    world = World(plan, clock=WallClock(), directory=directory)
    authority = ensure_authority(directory / "pki", [LOOPBACK])
    await world.start()
    listener = Listener(world[name].server.app, LOOPBACK, port, authority)
    await listener.start()
    write_kubeconfig(directory / "kubeconfig", authority, {name: f"https://{LOOPBACK}:{port}"})
    print("ready", flush=True)
    await stopped.wait()
    world[name].server.app.end_streams()
    await listener.stop()
    await world.stop()


if __name__ == "__main__":
    jumping = JumpingTime(Path(os.environ["SOAK_CLOCK"]))
    WallClock.now = lambda _: jumping.now()  # type: ignore[method-assign]
    if sys.argv[1] == "member":
        configure_logging(verbosity=0, as_json=False)
        asyncio.run(serve_member(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
    else:
        sys.exit(main())
