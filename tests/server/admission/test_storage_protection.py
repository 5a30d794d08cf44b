from simulate.fixtures import run_in_whole_cluster, workload
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")


def test_new_claim_gets_the_finalizer_that_protects_it_once() -> None:
    async def scenario(member: SimulatedMember) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        body = workload("PersistentVolumeClaim", "data", spec, "v1")
        body["metadata"]["finalizers"] = ["example.com/mine"]
        made = await member.client.create(CLAIMS, body)
        assert made["metadata"]["finalizers"] == ["example.com/mine", "kubernetes.io/pvc-protection"]
        body["metadata"] = {"name": "copy", "namespace": "default", "finalizers": ["kubernetes.io/pvc-protection"]}
        assert (await member.client.create(CLAIMS, body))["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]

    run_in_whole_cluster(scenario)
