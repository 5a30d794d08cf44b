"""Builders and probes for worlds in tests."""

from collections.abc import Awaitable, Callable
from typing import Any

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import run_virtually
from trimtab.errors import NotFound
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.member import Member
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


def fleet(*, nodes: int = 3, cpu: str = "8", pace: Any = "instant", **more: Any) -> FleetPlan:
    return FleetPlan(members=(MemberPlan(name="one", nodes=nodes, cpu=cpu),), pace=pace, **more)


def in_a_world(plan: FleetPlan, story: Callable[[World], Awaitable[Any]], *, seed: int = 0) -> Any:
    """Live the story in a world of its own, on the virtual clock."""

    async def life() -> Any:
        world = World(plan, seed=seed)
        await world.start()
        try:
            return await story(world)
        finally:
            await world.stop()

    return run_virtually(life())


def in_a_member(story: Callable[[Member], Awaitable[Any]], plan: FleetPlan | None = None) -> Any:
    return in_a_world(plan or fleet(), lambda world: story(next(iter(world))))


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


def masked(status: Raw) -> Raw:
    """Without times and hashes, as recordings are compared."""
    shown = {key: value for key, value in status.items() if not key.endswith("Time")}
    shown["conditions"] = [
        {key: value for key, value in one.items() if not key.endswith("Time")} for one in status.get("conditions", ())
    ]
    return shown
