"""Objects by the names that stories use."""

import asyncio
from typing import Any

import pytest

from trimtab.api.value import Raw
from trimtab.client.client import Listing, Resource
from trimtab.errors import InputError
from trimtab.stories.expectations import ObjectPattern
from trimtab.stories.objects import StoryObjects

PODS = Resource("", "v1", "pods", "Pod")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


class FakeClient:
    """A cluster with one pod of its own name, which counts its discoveries and keeps its patches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.discoveries = 0
        self.patches: list[tuple[Resource, str, str, Raw]] = []

    async def resources(self) -> list[Resource]:
        self.discoveries += 1
        return [PODS, CLUSTERS]

    async def list(self, resource: Resource, namespace: str = "") -> Listing:
        return Listing([{"metadata": {"name": f"web-{self.name}", "namespace": namespace or "default"}}], "1")

    async def patch(self, resource: Resource, namespace: str, name: str, body: Raw, **_: Any) -> None:
        self.patches.append((resource, namespace, name, body))


@pytest.fixture
def clients() -> dict[str, FakeClient]:
    return {name: FakeClient(name or "host") for name in ("", "one", "two")}


@pytest.fixture
def objects(clients: dict[str, FakeClient]) -> StoryObjects:
    return StoryObjects(clients.__getitem__, lambda: ["one", "two"])  # type: ignore[arg-type]


def test_wildcard_finds_objects_in_every_member(objects: StoryObjects) -> None:
    found = asyncio.run(objects.find(ObjectPattern("*", "Pod", None, "web-*")))
    assert [obj["metadata"]["name"] for obj in found] == ["web-one", "web-two"]


def test_discovery_is_done_once_per_cluster(objects: StoryObjects, clients: dict[str, FakeClient]) -> None:
    for _ in range(2):
        asyncio.run(objects.find(ObjectPattern("one", "Pod", None, "*")))
    assert (clients["one"].discoveries, clients["two"].discoveries) == (1, 0)


def test_unknown_kind_is_named_with_its_cluster(objects: StoryObjects) -> None:
    with pytest.raises(InputError, match="there is no kind Shop in the control plane"):
        asyncio.run(objects.resource("", "Shop"))
    with pytest.raises(InputError, match="there is no kind Shop in one"):
        asyncio.run(objects.resource("one", "Shop"))


def test_object_is_located_by_kind_namespace_and_name(objects: StoryObjects) -> None:
    assert asyncio.run(objects.locate("", "Pod/web")) == (PODS, "default", "web")
    assert asyncio.run(objects.locate("", "Pod/shop/web")) == (PODS, "shop", "web")
    assert asyncio.run(objects.locate("", "Cluster/m1")) == (CLUSTERS, "", "m1")
    with pytest.raises(InputError, match="'Pod' does not name an object"):
        asyncio.run(objects.locate("", "Pod"))


def test_apply_sets_the_default_namespace_and_the_version(
    objects: StoryObjects, clients: dict[str, FakeClient]
) -> None:
    asyncio.run(objects.apply("one", {"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "p"}}))
    ((resource, namespace, name, body),) = clients["one"].patches
    assert (resource.api_version, namespace, name) == ("v2", "default", "p")
    assert body["metadata"]["namespace"] == "default"
