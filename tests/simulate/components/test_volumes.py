import asyncio
from typing import Any

from simulate.fixtures import run_in_whole_cluster, workload
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)


def test_a_claim_is_bound_to_a_new_volume_that_is_deleted_with_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "standard",
            "resources": {"requests": {"storage": "2Gi"}},
        }
        await member.client.create(CLAIMS, workload("PersistentVolumeClaim", "data", spec, "v1"))
        await asyncio.sleep(2)
        claim = await member.client.get(CLAIMS, "default", "data")
        assert (claim["status"]["phase"], claim["status"]["capacity"]) == ("Bound", {"storage": "2Gi"})
        await member.client.delete(CLAIMS, "default", "data")
        await asyncio.sleep(2)
        assert not (await member.client.list(VOLUMES)).items

    run_in_whole_cluster(scenario)


def volume(name: str, storage: str, **spec: Any) -> Raw:
    body = {"capacity": {"storage": storage}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def claim(name: str, storage: str, **spec: Any) -> Raw:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    return workload("PersistentVolumeClaim", name, body, "v1")


async def phases(member: SimulatedMember) -> dict[str, str]:
    return {one["metadata"]["name"]: one["status"]["phase"] for one in (await member.client.list(VOLUMES)).items}


def test_claim_is_bound_to_the_smallest_volume_that_fits() -> None:
    async def scenario(member: SimulatedMember) -> None:
        for name, storage in (("large", "9Gi"), ("right", "3Gi"), ("small", "1Gi")):
            await member.client.create(VOLUMES, volume(name, storage, storageClassName="manual"))
        await member.client.create(VOLUMES, volume("other", "3Gi"))
        await asyncio.sleep(2)
        assert set((await phases(member)).values()) == {"Available"}
        await member.client.create(CLAIMS, claim("data", "2Gi", storageClassName="manual"))
        await asyncio.sleep(2)
        found = await member.client.get(CLAIMS, "default", "data")
        assert (found["spec"]["volumeName"], found["status"]["phase"]) == ("right", "Bound")
        assert found["status"]["capacity"] == {"storage": "3Gi"}
        assert (await phases(member)) == {
            "large": "Available",
            "right": "Bound",
            "small": "Available",
            "other": "Available",
        }
        await member.client.delete(CLAIMS, "default", "data")
        await asyncio.sleep(2)
        assert (await phases(member))["right"] == "Released"

    run_in_whole_cluster(scenario)


def test_claim_waits_for_a_volume_that_its_selector_matches() -> None:
    async def scenario(member: SimulatedMember) -> None:
        selector = {"matchLabels": {"tier": "fast"}}
        await member.client.create(CLAIMS, claim("data", "1Gi", storageClassName="", selector=selector))
        await member.client.create(VOLUMES, volume("slow", "1Gi"))
        await asyncio.sleep(2)
        assert (await member.client.get(CLAIMS, "default", "data"))["status"]["phase"] == "Pending"
        fast = volume("fast", "1Gi")
        fast["metadata"]["labels"] = {"tier": "fast"}
        await member.client.create(VOLUMES, fast)
        await asyncio.sleep(2)
        assert (await member.client.get(CLAIMS, "default", "data"))["spec"]["volumeName"] == "fast"

    run_in_whole_cluster(scenario)
