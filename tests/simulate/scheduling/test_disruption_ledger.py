import asyncio

from simulate.fixtures import DEPLOYMENTS, PODS, deployment, run_in_member, statefulset
from trimtab.client.client import Resource
from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.preemption.recent_disruptions import RecentDisruptions
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.scheduling.disruption_ledger import TYPES_READ, DisruptionLedger

SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")


async def open_ledger(member: SimulatedMember) -> DisruptionLedger:
    for type_ in TYPES_READ:
        await member.cache.table_of(type_).synced.wait()
    return DisruptionLedger(member.cache)


def pods_of(member: SimulatedMember, app: str) -> list[PodInfo]:
    return [build_pod_info(one) for one in member.pods if one.metadata.labels["app"] == app]


def recent_disruptions(ledger: DisruptionLedger, member: SimulatedMember, app: str) -> RecentDisruptions:
    return ledger.recent_disruptions(member._environment.clock.now())(pods_of(member, app)[0].traits.controller_uid)


def test_charged_victims_count_before_their_eviction_is_seen_and_only_once() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("web", 3))
        await asyncio.sleep(5)
        ledger, now = await open_ledger(member), member._environment.clock.now()
        first, second, _ = pods_of(member, "web")
        assert (
            recent_disruptions(ledger, member, "web").replicas,
            recent_disruptions(ledger, member, "web").unreplaced,
        ) == (3, 0)
        assert ledger.charge([first], now) == {first.pod.metadata.uid}
        again = ledger.charge([first, second], now)
        assert again == {second.pod.metadata.uid}
        assert (
            recent_disruptions(ledger, member, "web").unreplaced,
            recent_disruptions(ledger, member, "web").recent,
        ) == (2, 2)
        ledger.refund(again)
        assert (
            recent_disruptions(ledger, member, "web").unreplaced,
            recent_disruptions(ledger, member, "web").recent,
        ) == (1, 1)

    run_in_member(scenario)


def test_evictions_by_others_are_counted_from_events() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(SETS, statefulset("db", 3))
        await asyncio.sleep(20)
        metadata = {"name": "db-1", "namespace": "default"}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await member.client.submit(PODS, "default", "db-1", "eviction", eviction)
        ledger = await open_ledger(member)
        ledger.charge([one for one in pods_of(member, "db") if one.name == "db-1"], member._environment.clock.now())
        assert recent_disruptions(ledger, member, "db")[1:4] == (3, 1, 1)
        await asyncio.sleep(60)
        assert recent_disruptions(await open_ledger(member), member, "db")[1:4] == (3, 0, 1)
        await asyncio.sleep(3600)
        assert recent_disruptions(await open_ledger(member), member, "db")[1:4] == (3, 0, 0)

    run_in_member(scenario)
