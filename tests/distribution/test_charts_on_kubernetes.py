"""The charts on a real kube-apiserver: installed, upgraded, rolled back and uninstalled with helm.

The controllers then run with the service account, the rights and the arguments of the installed Deployment.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from distribution.tools import ROOT, run, tool
from kube.fleet import ControllersProcess
from kube.rig import RealControlPlane, RigUnavailable, binaries_directory, kubectl

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError

CHARTS = ROOT / "charts"
NAMESPACE = "trimtab-system"
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    try:
        binaries_directory()
    except RigUnavailable as reason:
        pytest.fail(f"{reason}; run `make kube`")
    with RealControlPlane("host", tmp_path_factory.mktemp("kube"), controllers=True) as plane:
        yield plane


def helm(host: RealControlPlane, *arguments: str) -> str:
    return run(tool("helm"), "--kubeconfig", str(host.kubeconfig), "-n", NAMESPACE, *arguments)


def test_charts_are_installed_upgraded_rolled_back_and_uninstalled(host: RealControlPlane, tmp_path: Path) -> None:
    helm(host, "install", "trimtab-crds", str(CHARTS / "trimtab-crds"), "--create-namespace")
    helm(host, "install", "trimtab", str(CHARTS / "trimtab"), "--set", "replicas=2")
    kubectl(host, "wait", "--for=condition=Established", "crd/works.work.karmada.io", "--timeout=120s")
    run_controllers_as_installed(host, tmp_path)

    helm(host, "upgrade", "trimtab", str(CHARTS / "trimtab"), "--set", "replicas=3,settings.failover=true")
    assert deployment(host)["spec"]["replicas"] == 3
    assert "--set=failover=true" in arguments_of(host)
    helm(host, "rollback", "trimtab", "1")
    assert deployment(host)["spec"]["replicas"] == 2

    cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "kept"}}
    kubectl(host, "apply", "-f", "-", given=json.dumps({**cluster, "spec": {"syncMode": "Push"}}))
    for release in ("trimtab", "trimtab-crds"):
        helm(host, "uninstall", release, "--wait")
    assert "kept" in kubectl(host, "get", "clusters.cluster.karmada.io", "-o", "name")
    assert "trimtab" not in kubectl(host, "get", "clusterroles", "-o", "name")


def run_controllers_as_installed(host: RealControlPlane, folder: Path) -> None:
    """Run the arguments of the Deployment as its service account, until it leads; nothing may be forbidden."""
    token = kubectl(host, "-n", NAMESPACE, "create", "token", "trimtab").strip()
    config = json.loads(kubectl(host, "config", "view", "--raw", "-o", "json"))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    (folder / "kubeconfig").write_text(json.dumps(config))
    flags = [flag for flag in arguments_of(host)[1:] if not flag.startswith("--health-address")]
    log = folder / "controllers.log"
    with ControllersProcess(folder / "kubeconfig", log, *flags):
        assert asyncio.run(leader(host))
    assert "forbidden" not in log.read_text().lower()


def deployment(host: RealControlPlane) -> dict:
    return json.loads(kubectl(host, "-n", NAMESPACE, "get", "deployment", "trimtab", "-o", "json"))


def arguments_of(host: RealControlPlane) -> list[str]:
    return deployment(host)["spec"]["template"]["spec"]["containers"][0]["args"]


async def leader(host: RealControlPlane) -> str:
    client = KubeClient(load(host.kubeconfig))
    try:
        return (await client.get(LEASES, NAMESPACE, "trimtab-controllers"))["spec"]["holderIdentity"]
    except ApiError:
        return ""
    finally:
        await client.close()
