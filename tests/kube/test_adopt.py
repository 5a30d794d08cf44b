"""`trimtab adopt`, `trimtab observe` and backups on real API servers: members are not written by a takeover or a restore."""

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from kube.fleet import CLUSTERS, NAMESPACES, ControllersProcess, RealFleet, all_ready, install_crds, wait_until
from kube.rig import RealControlPlane, kubectl
from kube.test_controllers import has_converged, roll_out
from kube.workloads import delete_namespace

from trimtab.cli.commands.adopt import command as adopt
from trimtab.cli.commands.backup import command as backup
from trimtab.cli.commands.observe import command as observe
from trimtab.cli.commands.release import command as release
from trimtab.cli.commands.restore import command as restore
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
SPACE = "adopted"
WORKLOADS = 3
FLAGS = ("--profile=upstream", "--status-seconds=2")


def invoke(command: object, plane: RealControlPlane, *arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "--kubeconfig", str(plane.kubeconfig)], standalone_mode=False)


async def specs_in_members(fleet: RealFleet) -> dict[str, tuple[str, Any]]:
    """The uid and the spec of every Deployment: both stay if no pod is replaced."""
    return {
        f"{name}/{raw['metadata']['name']}": (raw["metadata"]["uid"], raw["spec"])
        for name, member in fleet.real_members.items()
        for raw in (await member.client.list(DEPLOYMENTS, SPACE)).items
    }


async def managed_writes(fleet: RealFleet) -> dict[str, str]:
    """When a control plane last wrote each Deployment, as the API servers of the members recorded it."""
    found = {}
    for name, member in fleet.real_members.items():
        for raw in (await member.client.list(DEPLOYMENTS, SPACE)).items:
            times = [
                entry["time"]
                for entry in raw["metadata"]["managedFields"]
                if entry["manager"].startswith("trimtab") and not entry.get("subresource")
            ]
            found[f"{name}/{raw['metadata']['name']}"] = max(times)
    return found


async def have_no_other_namespaces(fleet: RealFleet) -> bool:
    """Whether no namespace of an earlier test is still to be deleted, on the host or in a member."""

    async def namespaces(client: KubeClient) -> dict[str, bool]:
        """Whether each namespace is being deleted."""
        listed = (await client.list(NAMESPACES)).items
        return {raw["metadata"]["name"]: "deletionTimestamp" in raw["metadata"] for raw in listed}

    host = await namespaces(fleet.client)
    found = [await namespaces(member.client) for member in fleet.real_members.values()]
    return not any(host.values()) and all(member.keys() <= host.keys() for member in found)


async def placements(client: KubeClient) -> dict[str, list[dict[str, object]]]:
    return {raw["metadata"]["name"]: raw["spec"]["clusters"] for raw in (await client.list(BINDINGS, SPACE)).items}


def test_takeover_writes_nothing_in_members_and_karmada_waits_for_its_leases(fleet: RealFleet, tmp_path: Path) -> None:
    run = fleet.loop.run
    with ControllersProcess(fleet.host.kubeconfig, tmp_path / "before.log", *FLAGS):
        run(wait_until(lambda: all_ready(fleet)))
        run(roll_out(fleet, SPACE, WORKLOADS))
        run(wait_until(lambda: has_converged(fleet, SPACE, WORKLOADS)))
        run(wait_until(lambda: have_no_other_namespaces(fleet)))
    kubectl(fleet.host, "create", "namespace", "karmada-system")
    before = run(specs_in_members(fleet)), run(managed_writes(fleet)), run(placements(fleet.client))

    checked = invoke(adopt, fleet.host)
    assert (checked.return_value, checked.exception) == (0, None), checked.output
    assert "0 writes in members" in checked.output
    taken = invoke(adopt, fleet.host, "--take-over")
    assert taken.return_value == 0, taken.output
    with ControllersProcess(fleet.host.kubeconfig, tmp_path / "after.log", *FLAGS, "--replace-karmada"):
        run(wait_until(lambda: all_ready(fleet)))
        for name in ("karmada-controller-manager", "karmada-scheduler"):
            assert run(fleet.client.get(LEASES, "karmada-system", name))["spec"]["holderIdentity"]
        refused = invoke(adopt, fleet.host, "--give-back")
        assert refused.return_value == 3, refused.output
        run(asyncio.sleep(10))
        now = run(specs_in_members(fleet)), run(managed_writes(fleet)), run(placements(fleet.client))
        assert now == before
    returned = invoke(adopt, fleet.host, "--give-back")
    assert returned.return_value == 0, returned.output
    kubectl(fleet.host, "delete", "namespace", "karmada-system")
    with ControllersProcess(fleet.host.kubeconfig, tmp_path / "end.log", *FLAGS):
        run(delete_namespace(fleet, SPACE))


def test_restored_control_plane_observes_until_it_is_released(fleet: RealFleet, tmp_path: Path) -> None:
    run = fleet.loop.run
    with ControllersProcess(fleet.host.kubeconfig, tmp_path / "before.log", *FLAGS):
        run(wait_until(lambda: all_ready(fleet)))
        run(roll_out(fleet, SPACE, WORKLOADS))
        run(wait_until(lambda: has_converged(fleet, SPACE, WORKLOADS)))
    saved = str(tmp_path / "saved")
    written = invoke(backup, fleet.host, saved)
    assert "objects; restore them" in written.output, (written.output, written.exception)
    specs, before = run(specs_in_members(fleet)), run(placements(fleet.client))

    with RealControlPlane("new", tmp_path) as new:
        client = KubeClient(load(new.kubeconfig))
        run(install_crds(client))
        restored = invoke(restore, new, saved)
        assert restored.return_value == 0, (restored.output, restored.exception)
        seen = invoke(observe, new, "--profile=upstream", "-o", "json")
        found = json.loads(seen.output)
        assert [write for write in found["memberWrites"] if write["verb"] == "delete"] == []
        assert (found["placements"], found["notRead"]) == ([], [])
        process = ControllersProcess(new.kubeconfig, tmp_path / "new.log", *FLAGS)
        process.start()
        run(asyncio.sleep(5))
        assert "controllers are ready" not in process.log.read_text()
        told, _, copy = invoke(release, new).output.strip().rpartition(" ")
        assert told == "the controllers start, as control plane"
        run(wait_until(lambda: is_ready(process)))
        run(wait_until(lambda: are_ready(client)))
        run(asyncio.sleep(10))
        process.stop()
        assert run(placements(client)) == before
        assert run(specs_in_members(fleet)) == specs, "no pod was replaced"
        run(client.close())
    returned = invoke(release, fleet.host, "--take-over", copy)
    assert returned.output.startswith("the controllers start, as control plane "), returned.output
    with ControllersProcess(fleet.host.kubeconfig, tmp_path / "end.log", *FLAGS):
        run(delete_namespace(fleet, SPACE))


async def is_ready(process: ControllersProcess) -> bool:
    return "controllers are ready" in process.log.read_text()


async def are_ready(client: KubeClient) -> bool:
    clusters = (await client.list(CLUSTERS)).items
    return len(clusters) == 3 and all(
        any(c["type"] == "Ready" and c["status"] == "True" for c in (raw.get("status") or {}).get("conditions") or [])
        for raw in clusters
    )
