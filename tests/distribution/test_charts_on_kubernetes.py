"""The charts on a real kube-apiserver: installed, upgraded, rolled back and uninstalled with helm.

The controllers then run with the service account, the rights and the arguments of the installed Deployment.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from distribution.test_charts import MATRIX, render
from distribution.tools import ROOT, run, tool
from kube.earlier_version import PREVIOUS, unpack_version
from kube.fleet import ENTRY, ControllersProcess
from kube.rig import RealControlPlane, RigUnavailable, binaries_directory, kubectl

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError

CHARTS = ROOT / "charts"
NAMESPACE = "trimtab-system"
BUNDLE = "/webhooks/0/clientConfig/caBundle"
UNCHANGED = "jsonpath={.metadata.uid} {.metadata.generation} {.metadata.labels} {.metadata.annotations}"
"""What stays as long as nobody but the API server writes an object."""
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
    return run(*helm_command(host, NAMESPACE), *arguments)


def helm_command(host: RealControlPlane, namespace: str) -> tuple[str, ...]:
    return tool("helm"), "--kubeconfig", str(host.kubeconfig), "-n", namespace


def trimtab(host: RealControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(host.kubeconfig)}
    command = [sys.executable, "-c", ENTRY, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)


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


def test_release_of_the_version_before_is_upgraded_and_rolled_back(host: RealControlPlane, tmp_path: Path) -> None:
    """All parts are enabled, so that every object of the chart is changed in place."""
    before = unpack_version(PREVIOUS, tmp_path / "before") / "charts"
    enabled = "push.enabled=true,webhook.enabled=true,webhook.pods=true,podControllers.enabled=true"
    kinds = ("clusters.cluster.karmada.io", "resourcebindings.work.karmada.io", "disruptionbudgets.trimtab.dev")
    helm(host, "install", "trimtab-crds", str(before / "trimtab-crds"), "--create-namespace")
    helm(host, "install", "trimtab", str(before / "trimtab"), "--set", enabled)
    kubectl(host, "wait", "--for=condition=Established", *(f"crd/{kind}" for kind in kinds), "--timeout=120s")
    cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "earlier"}}
    webhook = "validatingwebhookconfiguration/trimtab-webhook"
    kubectl(host, "patch", webhook, "--type=json", "-p", json.dumps([{"op": "add", "path": BUNDLE, "value": "Cg=="}]))

    for chart in ("trimtab-crds", "trimtab"):
        helm(host, "upgrade", chart, str(CHARTS / chart), "--reset-then-reuse-values")
    assert arguments_of(host)[:2] == ["controllers", "--roles=decide"]
    kept = json.loads(kubectl(host, "get", webhook, "-o", "json"))["webhooks"][0]["clientConfig"]
    assert kept["caBundle"] == "Cg==", "an upgrade keeps the certificate authority that the webhook has written"
    helm(host, "rollback", "trimtab", "1")
    for release in ("trimtab", "trimtab-crds"):
        helm(host, "uninstall", release, "--wait")
    kubectl(host, "apply", "-f", "-", given=json.dumps({**cluster, "spec": {"syncMode": "Push"}}))
    kubectl(host, "delete", "clusters.cluster.karmada.io", "earlier")


def test_second_control_plane_is_refused_and_a_release_can_be_installed_again(host: RealControlPlane) -> None:
    chart = str(CHARTS / "trimtab")
    for _ in range(2):  # the kinds of the first time are kept
        helm(host, "install", "trimtab-crds", str(CHARTS / "trimtab-crds"), "--create-namespace")
        helm(host, "install", "trimtab", chart)
        with pytest.raises(
            AssertionError, match="runs in this cluster already, as the Deployment trimtab in the namesp"
        ):
            run(*helm_command(host, "other"), "install", "second", chart, "--create-namespace")
        refused = trimtab(host, "install", "--image", "trimtab:1", "-n", "other", "--dry-run")
        assert refused.returncode == 1
        assert f"Trimtab runs in this cluster already, in the namespace {NAMESPACE}" in refused.stderr
        helm(host, "upgrade", "trimtab", chart, "--set", "replicas=0")
        run(*helm_command(host, "other"), "install", "second", chart, "--create-namespace", "--set", "replicas=1")
        run(*helm_command(host, "other"), "uninstall", "second", "--wait")
        for release in ("trimtab", "trimtab-crds"):
            helm(host, "uninstall", release, "--wait")


def test_kinds_of_somebody_else_are_left_alone(host: RealControlPlane) -> None:
    """With the groups of Karmada and OCM left out, Helm installs only its own; with them it refuses."""
    name = "crd/resourcebindings.work.karmada.io"
    groups = (".karmada.io", ".trimtab.dev", ".open-cluster-management.io")
    if kept := [one for one in kubectl(host, "get", "crds", "-o", "name").split() if one.endswith(groups)]:
        kubectl(host, "delete", *kept)
    crds = str(CHARTS / "trimtab-crds")
    own = trimtab(host, "crds", "--group", "work.karmada.io").stdout
    kubectl(host, "create", "-f", "-", given=own)
    before = kubectl(host, "get", name, "-o", UNCHANGED)
    with pytest.raises(AssertionError, match="cannot be imported into the current release"):
        helm(host, "install", "trimtab-crds", crds, "--create-namespace")
    helm(host, "install", "trimtab-crds", crds, "--create-namespace", "--set", "groups={trimtab.dev}")
    assert kubectl(host, "get", name, "-o", UNCHANGED) == before
    helm(host, "uninstall", "trimtab-crds", "--wait")
    kubectl(host, "delete", name, "crd/works.work.karmada.io", "crd/clusterresourcebindings.work.karmada.io")


@pytest.mark.parametrize("chart", ["trimtab", "trimtab-agent"])
def test_all_pods_are_admitted_where_the_restricted_profile_is_enforced(host: RealControlPlane, chart: str) -> None:
    space = f"restricted-{chart}"
    kubectl(host, "create", "namespace", space)
    kubectl(host, "label", "namespace", space, "pod-security.kubernetes.io/enforce=restricted")
    kubectl(host, "-n", space, "create", "serviceaccount", "any")
    values = MATRIX["everything"] if chart == "trimtab" else ("clusterName=east",)
    objects = render(chart, *values)
    pods = [
        {"metadata": {"generateName": "pod-"}, "spec": obj["spec"]["template"]["spec"]}
        for obj in objects
        if obj["kind"] == "Deployment"
    ]
    pods += [{"metadata": {"generateName": "pod-"}, "spec": obj["spec"]} for obj in objects if obj["kind"] == "Pod"]
    assert len(pods) == (5 if chart == "trimtab" else 1)
    for pod in pods:
        pod["spec"]["serviceAccountName"] = "any"
        body = {"apiVersion": "v1", "kind": "Pod", **pod}
        kubectl(host, "-n", space, "create", "--dry-run=server", "-f", "-", given=json.dumps(body))
    kubectl(host, "delete", "namespace", space, "--wait=false")


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
