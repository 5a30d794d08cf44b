import asyncio

from simulate.fixtures import run_in_whole_cluster, workload
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
