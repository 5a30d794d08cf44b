"""A control plane and members that are killed, paused, cut off and moved in time while workloads move and clusters leave.

`EFFORT` multiplies the number of steps; `SEED` repeats a run. Every process is real: it has its own data directory and
port, and is killed with SIGKILL.
"""

import asyncio
import os
from pathlib import Path

import pytest

from properties.hypothesis_settings import EFFORT
from soak.driver import Driver
from soak.fleet import Fleet

STEPS = 10
"""Steps per unit of effort."""
MEMBERS = 3


@pytest.mark.skipif(EFFORT == 1, reason="starts many processes for minutes; make soak runs it")
def test_fleet_survives_random_faults(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED") or int.from_bytes(os.urandom(3)))

    async def run() -> tuple[list[str], list[str]]:
        fleet = Fleet(tmp_path, MEMBERS)
        driver = Driver(fleet, seed)
        try:
            await fleet.start()
            return await driver.run(STEPS * EFFORT), driver.steps
        finally:
            await fleet.stop()
            (tmp_path / "history").write_text("\n".join(map(str, fleet.recorder.history)))

    found, steps = asyncio.run(run())
    print(f"seed {seed}:", *steps, sep="\n")
    assert found == [], "\n".join([f"seed {seed}, logs in {tmp_path}", *found, "steps:", *steps])
