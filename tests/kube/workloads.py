"""Workloads that tests roll out over a whole fleet."""

import contextlib
from typing import Any

from kube.fleet import NAMESPACES, RealFleet, wait_until

from trimtab.client.client import Resource
from trimtab.errors import NotFound

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")


def deployment(namespace: str, number: int) -> dict[str, Any]:
    name = f"web-{number}"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
            },
        },
    }


def policy(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"namespace": namespace, "name": "everywhere"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
        },
    }


async def delete_namespace(fleet: RealFleet, namespace: str) -> None:
    """Delete the namespace everywhere and wait until it is gone."""
    await fleet.client.delete(NAMESPACES, "", namespace)
    await wait_until(lambda: is_gone(fleet, namespace))


async def is_gone(fleet: RealFleet, namespace: str) -> bool:
    for client in (fleet.client, *fleet.members.values()):
        with contextlib.suppress(NotFound):
            await client.get(NAMESPACES, "", namespace)
            return False
    return True
