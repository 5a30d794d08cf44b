"""Builders and helpers for tests in simulated clusters."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import run_virtually
from trimtab.errors import NotFound
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.world import World

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
ORDERS = Resource("trimtab.dev", "v1alpha1", "priorityorders", "PriorityOrder", namespaced=False)
POLICIES = Resource("trimtab.dev", "v1alpha1", "disruptionpolicies", "DisruptionPolicy", namespaced=False)
GAMES = Resource("play.example", "v1", "games", "Game")


def fleet(*, nodes: int = 3, cpu: str = "8", pace: Any = "instant", **more: Any) -> FleetPlan:
    return FleetPlan(members=(MemberPlan(name="one", nodes=nodes, cpu=cpu),), pace=pace, **more)


def run_in_world(
    plan: FleetPlan, scenario: Callable[[World], Awaitable[Any]], *, seed: int = 0, whole_clusters: bool = False
) -> Any:
    """Run the scenario in its own world, on the virtual clock."""

    async def run() -> Any:
        world = World(plan, seed=seed, whole_clusters=whole_clusters)
        await world.start()
        try:
            return await scenario(world)
        finally:
            await world.stop()

    return run_virtually(run())


def run_in_member(scenario: Callable[[SimulatedMember], Awaitable[Any]], plan: FleetPlan | None = None) -> Any:
    return run_in_world(plan or fleet(), lambda world: scenario(next(iter(world))))


def run_in_whole_cluster(scenario: Callable[[SimulatedMember], Awaitable[Any]], plan: FleetPlan | None = None) -> Any:
    """Run the scenario in a member that has what every cluster has, as those of `trimtab up`."""
    return run_in_world(plan or fleet(), lambda world: scenario(next(iter(world))), whole_clusters=True)


def template(app: str, *, image: str = "app:1", cpu: str = "100m", **spec: Any) -> Raw:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str, body: Raw, api_version: str = "apps/v1") -> Raw:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": body,
    }


def deployment(name: str = "web", replicas: int = 3, *, spec: Raw | None = None, **more: Any) -> Raw:
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, **more)}
    return workload("Deployment", name, {**body, **(spec or {})})


def statefulset(name: str = "db", replicas: int = 3, *, spec: Raw | None = None, **more: Any) -> Raw:
    body = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name, **more),
    }
    return workload("StatefulSet", name, {**body, **(spec or {})})


def job(name: str = "work", *, spec: Raw | None = None, annotations: dict[str, str] | None = None) -> Raw:
    made = template(name, restartPolicy="Never")
    made["metadata"]["annotations"] = annotations or {}
    return workload("Job", name, {"template": made, **(spec or {})}, "batch/v1")


async def status(client: Client, resource: Resource, name: str) -> Raw:
    return (await client.get(resource, "default", name)).get("status") or {}


async def exists(client: Client, resource: Resource, name: str) -> bool:
    try:
        await client.get(resource, "default", name)
    except NotFound:
        return False
    return True


def condition(status: Raw, type_: str) -> Raw:
    return next(one for one in status.get("conditions", ()) if one["type"] == type_)


def new_image(image: str) -> Raw:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def without_times(status: Raw) -> Raw:
    """The status without times, for comparison with recordings."""
    shown = {key: value for key, value in status.items() if not key.endswith("Time")}
    shown["conditions"] = [
        {key: value for key, value in one.items() if not key.endswith("Time")} for one in status.get("conditions", ())
    ]
    return shown


def game_crd() -> Raw:
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": loose, "status": loose}}},
        "subresources": {"status": {}, "scale": {**scale, "labelSelectorPath": ".status.selector"}},
    }
    names = {"kind": "Game", "plural": "games", "singular": "game", "listKind": "GameList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "games.play.example"},
        "spec": {"group": "play.example", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def create_game(member: SimulatedMember, size: int) -> None:
    """Create a Game with its pods and scale status, as an operator would."""
    made = await member.client.create(GAMES, workload("Game", "chess", {"size": size}, "play.example/v1"))
    owner = {"apiVersion": "play.example/v1", "kind": "Game", "name": "chess", "uid": made["metadata"]["uid"]}
    for number in range(size):
        body = template("chess")
        metadata = {**body["metadata"], "name": f"chess-{number}", "namespace": "default"}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
        await member.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **body, "metadata": metadata})
    await asyncio.sleep(10)
    body = {"status": {"size": size, "selector": "app=chess"}}
    await member.client.patch(GAMES, "default", "chess", body, subresource="status")


def singleton(kind: str, **spec: Any) -> Raw:
    return {"apiVersion": "trimtab.dev/v1alpha1", "kind": kind, "metadata": {"name": "default"}, "spec": spec}


async def create_classes(member: SimulatedMember, **values: int) -> None:
    for name, value in values.items():
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        await member.client.create(CLASSES, {**body, "value": value})


async def create_pod(member: SimulatedMember, name: str, **spec: Any) -> Raw:
    body = template(name, **spec)
    body["metadata"] |= {"name": name, "namespace": "default"}
    return await member.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **body})


def running_apps(member: SimulatedMember) -> list[str]:
    return sorted(one.metadata.labels["app"] for one in member.pods if one.is_ready)
