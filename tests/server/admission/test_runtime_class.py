import pytest

from simulate.fixtures import create_pod, run_in_member
from trimtab.client.client import Resource
from trimtab.errors import Forbidden
from trimtab.simulate.member import SimulatedMember

CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)


def test_a_pod_gets_overhead_selector_and_tolerations_of_its_class() -> None:
    async def scenario(member: SimulatedMember) -> None:
        toleration = {"key": "sandbox", "operator": "Exists"}
        scheduling = {"nodeSelector": {"runtime": "sandbox"}, "tolerations": [toleration]}
        body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandbox"}}
        fixed = {"podFixed": {"cpu": "10m"}}
        await member.client.create(CLASSES, {**body, "handler": "x", "overhead": fixed, "scheduling": scheduling})
        spec = (await create_pod(member, "web", runtimeClassName="sandbox"))["spec"]
        assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "10m"}, {"runtime": "sandbox"})
        assert toleration in spec["tolerations"]
        with pytest.raises(Forbidden, match="conflict"):
            await create_pod(member, "other", runtimeClassName="sandbox", nodeSelector={"runtime": "plain"})

    run_in_member(scenario)


def test_an_unknown_class_and_an_overhead_without_class_are_forbidden() -> None:
    async def scenario(member: SimulatedMember) -> None:
        with pytest.raises(Forbidden, match='RuntimeClass "none" not found'):
            await create_pod(member, "web", runtimeClassName="none")
        with pytest.raises(Forbidden, match="without corresponding RuntimeClass"):
            await create_pod(member, "web", overhead={"cpu": "1"})

    run_in_member(scenario)
