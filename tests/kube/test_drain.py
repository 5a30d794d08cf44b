"""`trimtab drain` and `trimtab delete pod` against a real kube-apiserver, its disruption controller and its scheduler."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from kube.fleet import HEARTBEAT_SECONDS, TIMEOUT_SECONDS, CachedClient, LoopThread
from kube.rig import RealControlPlane, kubectl
from kube.test_rig import eventually

from trimtab.api.value import Raw
from trimtab.cli.commands.delete import command as delete
from trimtab.cli.commands.drain import command as drain
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.kubelets.kubelets import Kubelets, KubeletSettings

NAMESPACE = "drains"
PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


class DrainCluster:
    """A real cluster with two simulated nodes."""

    def __init__(self, plane: RealControlPlane) -> None:
        self.plane = plane
        self._loop = LoopThread()
        self._client = KubeClient(load(plane.kubeconfig))
        self._loop.run(self._start())
        kubectl(plane, "create", "namespace", NAMESPACE)

    async def _start(self) -> None:
        self._cache = CachedClient(self._client)
        plan = MemberPlan(name="drained", nodes=2, cpu="4")
        pace = FleetPlan(members=(plan,), pace="instant").pace_of(plan)
        shape = KubeletSettings("drained", pace, HEARTBEAT_SECONDS)
        self._kubelets = Kubelets(
            self._cache.cache, plan.node_plans(), shape, clock=WallClock(), rng=random.Random("drained")
        )
        await self._kubelets.start()

    def close(self) -> None:
        kubectl(self.plane, "delete", "namespace", NAMESPACE, f"--timeout={TIMEOUT_SECONDS:.0f}s")
        self._loop.run(self._stop())
        self._loop.close()

    async def _stop(self) -> None:
        await self._kubelets.stop()
        for node in list(self._kubelets.machines):
            await self._client.delete(NODES, "", node)
        await self._cache.cache.close()
        await self._client.close()

    def create(self, resource: Resource, obj: Raw) -> None:
        self._loop.run(self._client.create(resource, obj))

    def reset(self) -> None:
        """Delete workloads and budgets and uncordon every node, before each test."""
        kubectl(self.plane, "delete", "deployments,poddisruptionbudgets", "--all", "-n", NAMESPACE)
        eventually(lambda: not self._loop.run(self._client.list(PODS, NAMESPACE)).items)
        for node in self._kubelets.machines:
            self._loop.run(self._client.patch(NODES, "", node, {"spec": {"unschedulable": None}}))

    def pods(self, app: str) -> list[Raw]:
        return list(self._loop.run(self._client.list(PODS, NAMESPACE, labels=f"app={app}")).items)

    def ready(self, app: str) -> int:
        return sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            and not pod["metadata"].get("deletionTimestamp")
            for pod in self.pods(app)
        )

    def allowed(self, budget: str) -> int | None:
        status = self._loop.run(self._client.get(BUDGETS, NAMESPACE, budget)).get("status") or {}
        return status.get("disruptionsAllowed") if status.get("observedGeneration") else None

    def wait_until_ready(self, app: str, replicas: int) -> None:
        eventually(
            lambda: self.ready(app) == replicas, lambda: kubectl(self.plane, "get", "nodes,pods", "-A", "-o", "wide")
        )

    def deploy(self, app: str, replicas: int, **annotations: str) -> None:
        labels = {"app": app}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "registry.example/main"}]}
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        spec["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": labels}}]
        body = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
        metadata = {"name": app, "namespace": NAMESPACE, "annotations": annotations}
        self.create(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": body})

    def create_budget(self, name: str, app: str, allowed: int, **limit: Any) -> None:
        spec = {"selector": {"matchLabels": {"app": app}}, **limit}
        head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        self.create(BUDGETS, {**head, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        eventually(lambda: self.allowed(name) == allowed)

    def run(self, command: click.Command, *arguments: str) -> Result:
        """Run in its own thread: a command runs its own event loop."""
        given = [*arguments, "--kubeconfig", str(self.plane.kubeconfig)]
        return asyncio.run(asyncio.to_thread(CliRunner().invoke, command, given, standalone_mode=False))


@pytest.fixture(scope="module")
def cluster(member: RealControlPlane) -> Iterator[DrainCluster]:
    made = DrainCluster(member)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def reset_cluster(cluster: DrainCluster) -> Iterator[None]:
    yield
    cluster.reset()


def pods_on_node(pods: list[Raw], node: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]


def test_node_is_drained_within_its_budget(cluster: DrainCluster) -> None:
    cluster.deploy("web", 4)
    cluster.wait_until_ready("web", 4)
    cluster.create_budget("web", "web", 1, maxUnavailable=1)
    node = cluster.pods("web")[0]["spec"]["nodeName"]
    result = cluster.run(drain, node, "--dry-run")
    assert f"node/{node} could be drained now" in result.output
    result = cluster.run(drain, node, "--timeout", "240")
    assert result.return_value == 0, result.output
    assert f"node/{node} drained" in result.output
    assert pods_on_node(cluster.pods("web"), node) == []


def test_overlapping_budgets_are_named(cluster: DrainCluster) -> None:
    cluster.deploy("twice", 1)
    cluster.wait_until_ready("twice", 1)
    cluster.create_budget("one", "twice", 1, maxUnavailable=1)
    cluster.create_budget("two", "twice", 1, maxUnavailable=1)
    (pod,) = cluster.pods("twice")
    result = cluster.run(delete, "pod", pod["metadata"]["name"], "-n", NAMESPACE)
    assert result.return_value == 1
    assert "BlockedByOverlap: the budgets one and two select it" in result.output
    result = cluster.run(drain, pod["spec"]["nodeName"], "--timeout", "2")
    assert result.return_value == 1
    assert "BlockedByOverlap: the budgets one and two select it" in result.output


def test_pod_is_deleted_through_its_budget_by_default(cluster: DrainCluster) -> None:
    cluster.deploy("kept", 1)
    cluster.wait_until_ready("kept", 1)
    cluster.create_budget("kept", "kept", 0, minAvailable=1)
    (pod,) = cluster.pods("kept")
    name = pod["metadata"]["name"]
    result = cluster.run(delete, "pod", name, "nobody", "-n", NAMESPACE)
    assert result.return_value == 1
    assert "kept needs 1 healthy pods and has 1 currently" in result.output
    assert 'pods "nobody" not found' in result.output
    assert cluster.ready("kept") == 1
    result = cluster.run(delete, "pod", name, "-n", NAMESPACE, "--direct")
    assert result.return_value == 0
    eventually(lambda: [one["metadata"]["name"] for one in cluster.pods("kept")] != [name])
    cluster.wait_until_ready("kept", 1)


def test_replacement_comes_first_where_surge_is_allowed(cluster: DrainCluster) -> None:
    cluster.deploy("only", 1, **{"trimtab.dev/drain-surge": "Allowed"})
    cluster.wait_until_ready("only", 1)
    cluster.create_budget("only", "only", 0, minAvailable=1)
    (pod,) = cluster.pods("only")
    node = pod["spec"]["nodeName"]
    result = cluster.run(drain, node, "--timeout", "240")
    assert result.return_value == 0, result.output
    assert "one more replica of Deployment only starts first" in result.output
    assert pods_on_node(cluster.pods("only"), node) == []
    eventually(lambda: len(cluster.pods("only")) == cluster.ready("only") == 1)
