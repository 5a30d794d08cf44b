from simulate.fixtures import run_in_whole_cluster, workload
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")


def test_a_claim_without_a_class_gets_the_default_one_and_an_empty_class_is_kept() -> None:
    async def scenario(member: SimulatedMember) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = await member.client.create(CLAIMS, workload("PersistentVolumeClaim", "data", spec, "v1"))
        assert made["spec"]["storageClassName"] == "standard"
        plain = workload("PersistentVolumeClaim", "other", {**spec, "storageClassName": ""}, "v1")
        assert (await member.client.create(CLAIMS, plain))["spec"]["storageClassName"] == ""

    run_in_whole_cluster(scenario)
