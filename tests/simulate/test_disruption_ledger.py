import asyncio

from simulate.fixtures import DEPLOYMENTS, PODS, deployment, in_a_member, statefulset
from trimtab.client.client import Resource
from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.preemption.recent_disruptions import RecentDisruptions
from trimtab.simulate.disruption_ledger import READ, Ledger
from trimtab.simulate.member import Member

SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")


async def opened(member: Member) -> Ledger:
    for type_ in READ:
        await member.cache.table_of(type_).synced.wait()
    return Ledger(member.cache)


def pods_of(member: Member, app: str) -> list[PodInfo]:
    return [build_pod_info(one) for one in member.pods if one.metadata.labels["app"] == app]


def borne(ledger: Ledger, member: Member, app: str) -> RecentDisruptions:
    return ledger.burdens(member._ground.clock.now())(pods_of(member, app)[0].traits.controller_uid)


def test_charged_victims_count_before_their_eviction_is_seen_and_only_once() -> None:
    async def scenario(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment("web", 3))
        await asyncio.sleep(5)
        ledger, now = await opened(member), member._ground.clock.now()
        first, second, _ = pods_of(member, "web")
        assert (borne(ledger, member, "web").replicas, borne(ledger, member, "web").unreplaced) == (3, 0)
        assert ledger.take([first], now) == {first.pod.metadata.uid}
        again = ledger.take([first, second], now)
        assert again == {second.pod.metadata.uid}
        assert (borne(ledger, member, "web").unreplaced, borne(ledger, member, "web").recent) == (2, 2)
        ledger.give_back(again)
        assert (borne(ledger, member, "web").unreplaced, borne(ledger, member, "web").recent) == (1, 1)

    in_a_member(scenario)


def test_evictions_by_others_are_counted_from_events() -> None:
    async def scenario(member: Member) -> None:
        await member.client.create(SETS, statefulset("db", 3))
        await asyncio.sleep(20)
        metadata = {"name": "db-1", "namespace": "default"}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await member.client.submit(PODS, "default", "db-1", "eviction", eviction)
        ledger = await opened(member)
        ledger.take([one for one in pods_of(member, "db") if one.name == "db-1"], member._ground.clock.now())
        assert borne(ledger, member, "db")[1:4] == (3, 1, 1)
        await asyncio.sleep(60)
        assert borne(await opened(member), member, "db")[1:4] == (3, 0, 1)
        await asyncio.sleep(3600)
        assert borne(await opened(member), member, "db")[1:4] == (3, 0, 0)

    in_a_member(scenario)
