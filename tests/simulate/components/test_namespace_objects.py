import asyncio

from simulate.fixtures import run_in_member, run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


async def names(member: SimulatedMember, resource: Resource) -> list[str]:
    return [one["metadata"]["name"] for one in (await member.client.list(resource, "default")).items]


def test_account_and_certificate_are_restored_when_somebody_deletes_or_changes_them() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await asyncio.sleep(1)
        assert await names(member, ACCOUNTS) == ["default"]
        await member.client.delete(ACCOUNTS, "default", "default")
        await member.client.patch(CONFIG_MAPS, "default", "kube-root-ca.crt", {"data": {"ca.crt": "other"}})
        await asyncio.sleep(1)
        assert await names(member, ACCOUNTS) == ["default"]
        restored = await member.client.get(CONFIG_MAPS, "default", "kube-root-ca.crt")
        assert restored["data"] == {"ca.crt": member.address.certificate}

    run_in_whole_cluster(scenario)


def test_a_cluster_of_a_story_has_none_of_them() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await asyncio.sleep(1)
        assert await names(member, ACCOUNTS) == await names(member, CONFIG_MAPS) == []

    run_in_member(scenario)
