"""The rig starts a real Kubernetes, and deliberate failures lose no data."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kube.fleet import TIMEOUT_SECONDS
from kube.rig import RealControlPlane, kubectl

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.example/web"}]},
        },
    },
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    },
}


def list_objects(plane: RealControlPlane, kind: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(kubectl(plane, "get", kind, "-A", "-o", "json"))["items"]
    return items


def names(plane: RealControlPlane, kind: str) -> set[str]:
    return {item["metadata"]["name"] for item in list_objects(plane, kind)}


def eventually(is_met: Callable[[], bool], state: Callable[[], str] = lambda: "") -> None:
    """Wait until the condition is met; reports the current state at the timeout."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_met():
        assert time.monotonic() < deadline, f"the condition was not met in time\n{state()}"
        time.sleep(0.3)


def test_server_reports_its_release(host: RealControlPlane) -> None:
    versions = json.loads(kubectl(host, "version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"]
    assert versions["serverVersion"]["gitVersion"].startswith("v1.")


def test_host_deletes_namespaces_but_runs_no_workloads(host: RealControlPlane) -> None:
    kubectl(host, "create", "namespace", "doomed")
    kubectl(host, "create", "-f", "-", given=json.dumps(DEPLOYMENT))
    kubectl(host, "delete", "namespace", "doomed", f"--timeout={TIMEOUT_SECONDS:.0f}s")
    assert "doomed" not in names(host, "namespaces")
    assert names(host, "replicasets") == set()
    kubectl(host, "delete", "deployment", "web")


def test_host_collects_objects_without_owner(host: RealControlPlane) -> None:
    owner = json.loads(kubectl(host, "create", "configmap", "owner", "-o", "json"))["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
    metadata = {"name": "owned", "namespace": owner["namespace"], "ownerReferences": [reference]}
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    kubectl(host, "create", "-f", "-", given=json.dumps(owned))
    kubectl(host, "delete", "configmap", "owner")
    eventually(lambda: "owned" not in names(host, "configmaps"))


def test_killed_api_server_restarts_with_all_objects(host: RealControlPlane) -> None:
    kubectl(host, "create", "configmap", "before-the-kill")
    host.restart_apiserver(signal.SIGKILL)
    assert "before-the-kill" in names(host, "configmaps")


def test_etcd_outage_loses_no_data(host: RealControlPlane) -> None:
    kubectl(host, "create", "configmap", "before-the-outage")
    host.stop_etcd()
    eventually(lambda: not host.ready())
    host.start_etcd()
    eventually(host.ready)
    assert "before-the-outage" in names(host, "configmaps")


@pytest.fixture
def lone_node(member: RealControlPlane) -> Iterator[RealControlPlane]:
    """A member with a node without a kubelet: pods of other tests must not be scheduled there."""
    kubectl(member, "create", "-f", "-", given=json.dumps(NODE))
    yield member
    kubectl(member, "delete", "deployment", "web", "--ignore-not-found")
    eventually(lambda: not names(member, "replicasets"))
    kubectl(member, "delete", "pods", "--all", "--force")
    kubectl(member, "delete", "node", "node-1")


def test_member_runs_deployment_as_pods_on_nodes(lone_node: RealControlPlane) -> None:
    member = lone_node
    status = json.dumps({"status": NODE["status"]})
    kubectl(member, "patch", "node", "node-1", "--subresource=status", "--type=merge", "-p", status)
    kubectl(member, "create", "-f", "-", given=json.dumps(DEPLOYMENT))
    eventually(lambda: [pod["spec"].get("nodeName") for pod in list_objects(member, "pods")] == ["node-1", "node-1"])
