"""A running control plane is upgraded from the version before, and rolled back, while workloads move under a budget.

The earlier versions are wheels of commits of this repository (`earlier_version.py`), in environments of their own.
"""

import asyncio
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from kube.earlier_version import BEFORE_PREVIOUS, PREVIOUS, EarlierVersion, install_version
from kube.fleet import ControllersProcess, RealFleet, all_ready, wait_until
from kube.rig import RealControlPlane, kubectl
from kube.test_production import (
    MAX_UNAVAILABLE,
    MOVES,
    REPLICAS,
    SHOP,
    WORKLOADS,
    Observer,
    as_list,
    budget,
    has_arrived,
    has_ended,
    policy,
    workload,
)
from kube.workloads import delete_namespace

from cli.commands.test_controllers import CONFIGS, config_map_data, propagate_config_map, wait_until_fully_applied
from trimtab.cli.commands.crds import command as crds
from trimtab.cli.commands.join import command as join
from trimtab.cli.commands.unjoin import command as unjoin
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load

FLAGS = ("--leader-elect", "--lease-seconds=6", "--status-seconds=2", "-v")


class VersionProcess(ControllersProcess):
    """`trimtab controllers` of an earlier version."""

    def __init__(self, version: EarlierVersion, kubeconfig: Path, log: Path, *flags: str) -> None:
        super().__init__(kubeconfig, log, *flags)
        self._command = version.command("controllers", "--kubeconfig", str(kubeconfig), *flags)


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> EarlierVersion:
    return install_version(PREVIOUS, tmp_path_factory.mktemp("previous"))


def wait_for_leader(process: ControllersProcess) -> None:
    """Wait until the process leads: the others have given up the Lease."""

    async def leads() -> bool:
        assert not process.log_after_exit(), process.log_after_exit()
        return "controllers are ready" in process.log.read_text()

    asyncio.run(wait_until(leads))


def test_upgrade_and_rollback_in_the_middle_of_moves(
    fleet: RealFleet, previous: EarlierVersion, tmp_path: Path
) -> None:
    run, host = fleet.loop.run, fleet.host.kubeconfig
    kubectl(fleet.host, "apply", "--server-side", "--force-conflicts", "-f", "-", given=previous.run("crds"))
    old = VersionProcess(previous, host, tmp_path / "old.log", *FLAGS)
    new = ControllersProcess(host, tmp_path / "new.log", *FLAGS)
    again = VersionProcess(previous, host, tmp_path / "again.log", *FLAGS)
    processes = (old, new, again)
    observer = Observer(fleet)
    try:
        old.start()
        wait_for_leader(old)
        run(wait_until(lambda: all_ready(fleet)))
        kubectl(fleet.host, "create", "namespace", SHOP)
        workloads = [workload(f"web-{number}", SHOP, REPLICAS) for number in range(WORKLOADS)]
        kubectl(fleet.host, "apply", "-f", "-", given=as_list([*workloads, policy(("member1", "member2"))]))
        limits = budget(SHOP, maxUnavailable=MAX_UNAVAILABLE, maxConcurrent=1, target="Workloads")
        kubectl(fleet.host, "apply", "-f", "-", given=json.dumps(limits))
        run(wait_until(lambda: has_arrived(fleet, ("member1", "member2"))))
        run(observer.start())
        kubectl(fleet.host, "apply", "-f", "-", given=json.dumps(policy(("member2", "member3"))))
        run(wait_until(lambda: has_ended(fleet, 1)))

        # The upgrade: the kinds first, then the controllers, of which only the leader works.
        kubectl(
            fleet.host, "apply", "--server-side", "--force-conflicts", "-f", "-", given=CliRunner().invoke(crds).output
        )
        new.start()
        old.stop()
        wait_for_leader(new)
        run(wait_until(lambda: has_ended(fleet, 2)))

        # The rollback: the controllers of the version before, with the new kinds.
        again.start()
        new.stop()
        wait_for_leader(again)
        run(wait_until(lambda: has_arrived(fleet, ("member2", "member3"))))
        run(observer.stop())
        moves = run(fleet.client.list(MOVES, SHOP)).items
        by_source = Counter((move["spec"]["object"]["name"], move["spec"]["from"]) for move in moves)
        assert observer.most_open == 1, f"the budget allows one move at a time: {observer.history}"
        assert observer.fewest_ready >= REPLICAS - MAX_UNAVAILABLE, f"in {observer.samples} samples"
        assert by_source == {(f"web-{number}", "member1"): 1 for number in range(WORKLOADS)}
        assert all((move["status"] or {}).get("outcome") == "Done" for move in moves), moves
    finally:
        for process in processes:
            process.stop()
    with fleet.controllers("upgrade-end", *FLAGS):
        run(delete_namespace(fleet, SHOP))


@pytest.mark.parametrize("commit", [PREVIOUS, BEFORE_PREVIOUS])
def test_agent_of_an_earlier_version_serves_its_cluster(
    host_with_crds: RealControlPlane, member: RealControlPlane, tmp_path: Path, commit: str
) -> None:
    version = install_version(commit, tmp_path / "version")
    host, here = str(host_with_crds.kubeconfig), str(member.kubeconfig)
    # A control plane of another test, which has ended, may still hold the member.
    arguments = ["skewed", "--mode=pull", "--kubeconfig", here, "--host-kubeconfig", host, "--take-over"]
    joined = CliRunner().invoke(join, arguments)
    assert joined.exit_code == 0, joined.output

    async def story() -> None:
        control, reached = KubeClient(load(host)), KubeClient(load(here))
        await propagate_config_map(control)
        assert await config_map_data(reached) == {"k": "v"}
        await wait_until_fully_applied(control)
        await control.patch(CONFIGS, "demo", "conf", {"data": {"k": "again"}})

        async def has_changed() -> bool:
            return (await config_map_data(reached))["k"] == "again"

        await wait_until(has_changed)
        await control.close()
        await reached.close()

    command = version.command("agent", "skewed", "--kubeconfig", here, "--host-kubeconfig", host, "-v")
    with ControllersProcess(host_with_crds.kubeconfig, tmp_path / "controllers.log", "-v", "--status-seconds=2"):
        with (tmp_path / "agent.log").open("wb") as log:
            agent = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            asyncio.run(asyncio.wait_for(story(), 600))
            kubectl(host_with_crds, "delete", "namespace", "demo", "--wait=false")
            removed = CliRunner().invoke(unjoin, ["skewed", "--kubeconfig", host, "--force", "--yes"])
            assert removed.exit_code == 0, removed.output
        finally:
            agent.terminate()
            agent.wait(60)
    assert "Traceback" not in (tmp_path / "agent.log").read_text()
