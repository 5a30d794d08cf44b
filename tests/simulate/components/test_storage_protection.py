"""Claims and volumes in use are kept until nobody uses them."""

import asyncio

import pytest

from simulate.components.test_volumes import CLAIMS, VOLUMES, claim, volume
from simulate.fixtures import PODS, run_in_whole_cluster, workload
from trimtab.errors import NotFound
from trimtab.simulate.member import SimulatedMember


def test_deleted_claim_stays_while_a_pod_uses_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(CLAIMS, claim("data", "1Gi"))
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        spec = {"containers": [{"name": "main", "image": "app:1"}], "volumes": volumes}
        await member.client.create(PODS, workload("Pod", "p", spec, "v1"))
        await asyncio.sleep(5)
        await member.client.delete(CLAIMS, "default", "data")
        await asyncio.sleep(5)
        found = await member.client.get(CLAIMS, "default", "data")
        assert found["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        assert found["metadata"]["deletionTimestamp"]
        await member.client.delete(PODS, "default", "p", grace_seconds=0)
        await asyncio.sleep(5)
        with pytest.raises(NotFound):
            await member.client.get(CLAIMS, "default", "data")
        assert not (await member.client.list(VOLUMES)).items

    run_in_whole_cluster(scenario)


def test_deleted_volume_stays_while_it_is_bound() -> None:
    async def scenario(member: SimulatedMember) -> None:
        for name in ("bound", "free"):
            await member.client.create(VOLUMES, volume(name, "1Gi", storageClassName=name))
        await member.client.create(CLAIMS, claim("data", "1Gi", storageClassName="bound"))
        await asyncio.sleep(2)
        for name in ("bound", "free"):
            await member.client.delete(VOLUMES, "", name)
        await asyncio.sleep(2)
        assert [one["metadata"]["name"] for one in (await member.client.list(VOLUMES)).items] == ["bound"]
        await member.client.delete(CLAIMS, "default", "data")
        await asyncio.sleep(2)
        assert not (await member.client.list(VOLUMES)).items

    run_in_whole_cluster(scenario)
