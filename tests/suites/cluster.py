"""Serves one simulated cluster on an address of its own, as a cluster that a suite creates and joins itself."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from suites.karmada_agent import run_agents

from trimtab.clock import WallClock
from trimtab.runtime.declarations import load_declarations
from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.auth.kubeconfig import write_kubeconfig
from trimtab.server.http.listener import Listener
from trimtab.simulate.components.cluster_objects import ApiServerAddress
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.world import World


async def serve(name: str, directory: Path, address: str, port: int) -> None:
    load_declarations()
    plan = MemberPlan(name=name.removesuffix("-control-plane"), nodes=1, system_workloads=True)
    world = World(FleetPlan(members=(plan,)), clock=WallClock(), whole_clusters=True)
    authority = ensure_authority(directory / "pki", [address])
    member = world[plan.name]
    member.address = ApiServerAddress(address, port, authority.certificate.read_text())
    await world.start()
    agents = asyncio.ensure_future(run_agents(member, WallClock()))
    listener = Listener(member.server.app, address, port, authority)
    await listener.start()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    write_kubeconfig(directory / "kubeconfig", authority, {name: f"https://{address}:{port}"})
    await stopped.wait()
    agents.cancel()
    await listener.stop()
    await world.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=6443)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.name, arguments.directory, arguments.address, arguments.port))


if __name__ == "__main__":
    main()
