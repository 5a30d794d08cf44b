import asyncio

import pytest

from simulate.fixtures import STATEFULSETS, run_in_whole_cluster, statefulset
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
TEMPLATE = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def claims(member: SimulatedMember) -> list[str]:
    return [one["metadata"]["name"] for one in (await member.client.list(CLAIMS, "default")).items]


@pytest.mark.parametrize(
    ("policy", "after_scaling", "after_deletion"),
    [
        ({"whenScaled": "Retain", "whenDeleted": "Retain"}, 2, 2),
        ({"whenScaled": "Delete", "whenDeleted": "Retain"}, 1, 1),
        ({"whenScaled": "Retain", "whenDeleted": "Delete"}, 2, 0),
        ({"whenScaled": "Delete", "whenDeleted": "Delete"}, 1, 0),
    ],
)
def test_claims_go_with_their_pod_or_their_statefulset(
    policy: dict[str, str], after_scaling: int, after_deletion: int
) -> None:
    async def scenario(member: SimulatedMember) -> None:
        spec = {"volumeClaimTemplates": [TEMPLATE], "persistentVolumeClaimRetentionPolicy": policy}
        await member.client.create(STATEFULSETS, statefulset(replicas=2, spec=spec))
        await asyncio.sleep(20)
        assert await claims(member) == ["data-db-0", "data-db-1"]
        await member.client.patch(STATEFULSETS, "default", "db", {"spec": {"replicas": 1}})
        await asyncio.sleep(20)
        assert len(await claims(member)) == after_scaling
        await member.client.delete(STATEFULSETS, "default", "db")
        await asyncio.sleep(20)
        assert len(await claims(member)) == after_deletion

    run_in_whole_cluster(scenario)


def test_owner_that_is_no_controller_stays_beside_the_statefulset() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=1, spec={"volumeClaimTemplates": [TEMPLATE]}))
        await asyncio.sleep(20)
        account = await member.client.get(Resource("", "v1", "serviceaccounts", "ServiceAccount"), "default", "default")
        other = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "default", "uid": account["metadata"]["uid"]}
        await member.client.patch(CLAIMS, "default", "data-db-0", {"metadata": {"ownerReferences": [other]}})
        policy = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain", "whenDeleted": "Delete"}}
        await member.client.patch(STATEFULSETS, "default", "db", {"spec": policy})
        await asyncio.sleep(20)
        first, second = (await member.client.get(CLAIMS, "default", "data-db-0"))["metadata"]["ownerReferences"]
        assert first == other
        assert (second["kind"], second["controller"], second["blockOwnerDeletion"]) == ("StatefulSet", True, True)

    run_in_whole_cluster(scenario)
