import asyncio

from simulate.fixtures import DEPLOYMENTS, deployment, run_in_member
from trimtab.simulate.kubelets.heartbeats import LEASE_NAMESPACE, LEASES
from trimtab.simulate.member import SimulatedMember


def test_idle_cluster_writes_only_heartbeats() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(60)
        before = member.server.store.revision
        await asyncio.sleep(600)
        assert member.server.store.revision - before == 3 * 60

    run_in_member(scenario)


def test_lease_of_a_failed_machine_is_not_renewed_until_it_recovers() -> None:
    async def scenario(member: SimulatedMember) -> None:
        async def renewed(node: str) -> str:
            return (await member.client.get(LEASES, LEASE_NAMESPACE, node))["spec"]["renewTime"]

        await asyncio.sleep(15)
        member.kubelets.fail("one-node-1")
        failed, other = await renewed("one-node-1"), await renewed("one-node-2")
        await asyncio.sleep(30)
        assert await renewed("one-node-1") == failed
        assert await renewed("one-node-2") > other
        await member.kubelets.recover("one-node-1")
        assert await renewed("one-node-1") > failed

    run_in_member(scenario)


def test_deleted_lease_is_created_again() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await asyncio.sleep(15)
        await member.client.delete(LEASES, LEASE_NAMESPACE, "one-node-1")
        await asyncio.sleep(15)
        lease = await member.client.get(LEASES, LEASE_NAMESPACE, "one-node-1")
        assert lease["spec"]["leaseDurationSeconds"] == 40

    run_in_member(scenario)
