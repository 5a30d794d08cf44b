"""Lookups by the names that users type."""

import asyncio
from typing import Any

import pytest

from trimtab.api.kinds.native.pod import Pod
from trimtab.client.client import Listing, Resource
from trimtab.client.lookups import find_resource, list_typed, workload_reference
from trimtab.errors import InputError, NotFound

SERVED = [Resource("apps", "v1", "deployments", "Deployment"), Resource("", "v1", "nodes", "Node", namespaced=False)]


class TwoResourceClient:
    """Serves two resources, and lists the given pods."""

    def __init__(self, *pods: tuple[str, str]) -> None:
        self.pods = pods

    async def resources(self) -> list[Resource]:
        return SERVED

    async def list(self, resource: Resource, namespace: str = "", **_: Any) -> Listing:
        if not self.pods:
            raise NotFound("the server could not find the requested resource")
        return Listing([{"metadata": {"namespace": place, "name": name}} for place, name in self.pods], "7")


@pytest.mark.parametrize("word", ["deploy", "Deployment", "deployments", "deployments.apps"])
def test_resource_is_found_by_each_of_its_names(word: str) -> None:
    assert find_resource(word, SERVED) == SERVED[0]
    with pytest.raises(InputError, match="no kind called 'cronjob'"):
        find_resource("cronjob", SERVED)
    with pytest.raises(InputError, match=r"no kind called 'deploymnet'; did you mean deployment\?"):
        find_resource("deploymnet", SERVED)


def test_workload_reference_has_a_namespace_only_if_its_kind_has() -> None:
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}
    node = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    assert asyncio.run(workload_reference(TwoResourceClient(), "deploy/web", "shop")) == web  # type: ignore[arg-type]
    assert asyncio.run(workload_reference(TwoResourceClient(), "node/n", "shop")) == node  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'web' does not name a workload"):
        asyncio.run(workload_reference(TwoResourceClient(), "web", "shop"))  # type: ignore[arg-type]


def test_typed_list_is_sorted_and_may_be_empty_if_the_kind_is_not_served() -> None:
    client = TwoResourceClient(("b", "x"), ("a", "z"), ("a", "y"))
    pods = asyncio.run(list_typed(client, Pod))  # type: ignore[arg-type]
    assert [(pod.namespace, pod.name) for pod in pods] == [("a", "y"), ("a", "z"), ("b", "x")]
    assert asyncio.run(list_typed(TwoResourceClient(), Pod, if_served=True)) == []  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        asyncio.run(list_typed(TwoResourceClient(), Pod))  # type: ignore[arg-type]
