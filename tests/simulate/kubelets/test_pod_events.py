"""Events of simulated kubelets about the containers of a pod."""

import asyncio
from typing import Any

import pytest

from simulate.fixtures import PODS, fleet, run_in_member, run_in_whole_cluster
from trimtab.client.client import EVENTS
from trimtab.simulate import fleet as fleet_module
from trimtab.simulate.member import SimulatedMember


def pod(name: str, image: str = "app:1", **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": image, **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def kubelet_events(member: SimulatedMember) -> list[tuple[str, str, int]]:
    """(reason, message, count) in the order of the events."""
    found = (await member.client.list(EVENTS, "default")).items
    own = [one for one in found if one["source"] == {"component": "kubelet"}]
    own.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
    assert {one["involvedObject"]["kind"] for one in own} <= {"Pod"}
    return [(one["reason"], one["message"], one["count"]) for one in own]


STARTED = [
    ("Pulled", 'Container image "app:1" already present on machine', 1),
    ("Created", "Created container: main", 1),
    ("Started", "Started container main", 1),
]


def test_start_and_end_of_a_container_are_recorded_once() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, pod("p"))
        await asyncio.sleep(60)
        assert await kubelet_events(member) == STARTED
        await member.client.delete(PODS, "default", "p")
        await asyncio.sleep(60)
        assert await kubelet_events(member) == [*STARTED, ("Killing", "Stopping container main", 1)]

    run_in_whole_cluster(scenario)


def test_restarts_and_their_back_off_are_recorded() -> None:
    async def scenario(member: SimulatedMember) -> None:
        created = await member.client.create(PODS, pod("p", image="busybox", command=["sh", "-c", "sleep 5; exit 1"]))
        await asyncio.sleep(20)  # 5 s, back-off of 10 s, then the second start
        counts = {reason: count for reason, _, count in await kubelet_events(member)}
        assert counts == {"Pulled": 2, "Created": 2, "Started": 2, "BackOff": 1}
        (message,) = [message for reason, message, _ in await kubelet_events(member) if reason == "BackOff"]
        where = f"p_default({created['metadata']['uid']})"
        assert message == f"Back-off restarting failed container main in pod {where}"

    run_in_whole_cluster(scenario)


def test_image_that_cannot_be_pulled_is_recorded() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, pod("p", image="invalid.registry.k8s.io/invalid/alpine:3.1"))
        await asyncio.sleep(20)
        ((reason, message, _),) = await kubelet_events(member)
        assert reason == "Failed"
        assert message.startswith('Failed to pull image "invalid.registry.k8s.io/invalid/alpine:3.1": ')

    run_in_whole_cluster(scenario)


def test_members_of_stories_and_large_fleets_record_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, pod("p"))
        await asyncio.sleep(20)
        assert [one.is_ready for one in member.pods] == [True]
        assert await kubelet_events(member) == []

    run_in_member(scenario)
    monkeypatch.setattr(fleet_module, "MAX_NODES_WITH_KUBELET_EVENTS", 2)
    run_in_whole_cluster(scenario, fleet(nodes=3))
