"""The controllers work with exactly the permissions of our manifests."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kube.fleet import ControllersProcess, RealFleet, all_ready, wait_until
from kube.rig import RealControlPlane, kubectl
from kube.test_controllers import has_converged, roll_out
from kube.workloads import delete_namespace

from trimtab.client.client import Resource

EVENTS = Resource("", "v1", "events", "Event")
MANIFESTS = Path(__file__).resolve().parents[2] / "examples" / "deploy"
NAMESPACE = "trimtab-system"
WORKLOADS = 3


@pytest.fixture
def account(fleet: RealFleet, tmp_path: Path) -> Iterator[Path]:
    yield kubeconfig_of_manifests(fleet.host, tmp_path)
    kubectl(fleet.host, "delete", "-f", str(MANIFESTS / "controllers.yaml"))


def kubeconfig_of_manifests(plane: RealControlPlane, directory: Path) -> Path:
    """Apply the manifests; returns a kubeconfig of their service account."""
    kubectl(plane, "apply", "-f", str(MANIFESTS / "controllers.yaml"))
    token = kubectl(plane, "-n", NAMESPACE, "create", "token", "trimtab-controllers").strip()
    config = json.loads(kubectl(plane, "config", "view", "--raw", "-o", "json"))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    (directory / "kubeconfig").write_text(json.dumps(config))
    return directory / "kubeconfig"


def test_permissions_of_the_manifest_suffice_from_join_to_workload_deletion(
    fleet: RealFleet, account: Path, tmp_path: Path
) -> None:
    async def story() -> None:
        await wait_until(lambda: all_ready(fleet))
        await roll_out(fleet, "rights", WORKLOADS)
        await wait_until(lambda: has_converged(fleet, "rights", WORKLOADS))
        reasons = {event["reason"] for event in (await fleet.client.list(EVENTS, "rights")).items}
        assert "ApplyPolicySucceed" in reasons  # a forbidden event is dropped silently
        await delete_namespace(fleet, "rights")

    flags = ("--leader-elect", f"--leader-elect-resource-namespace={NAMESPACE}", "--status-seconds=2")
    log = tmp_path / "controllers.log"
    with ControllersProcess(account, log, *flags):
        fleet.loop.run(asyncio.wait_for(story(), 300))
    assert "forbidden" not in log.read_text().lower()
