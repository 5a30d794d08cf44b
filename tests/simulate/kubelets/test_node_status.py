"""The status that kubelets report about their nodes."""

import asyncio

from simulate.fixtures import NODES, PODS, run_in_member
from trimtab.simulate.member import SimulatedMember


def test_extended_resource_that_is_patched_into_the_capacity_becomes_allocatable() -> None:
    async def scenario(member: SimulatedMember) -> None:
        async def patch(amount: str | None) -> dict:
            body = {"status": {"capacity": {"example.com/dongle": amount}}}
            await member.client.patch(NODES, "", "one-node-1", body, subresource="status")
            await asyncio.sleep(1)
            return (await member.client.get(NODES, "", "one-node-1"))["status"]["allocatable"]

        assert (await patch("5"))["example.com/dongle"] == "5"
        limits = {"limits": {"example.com/dongle": "3"}, "requests": {"example.com/dongle": "3"}}
        spec = {"containers": [{"name": "c", "image": "app:1", "resources": limits}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        await member.client.create(PODS, pod)
        await asyncio.sleep(5)
        assert [one.spec.node_name for one in member.pods if one.is_ready] == ["one-node-1"]
        assert "example.com/dongle" not in await patch(None)

    run_in_member(scenario)
