"""The rescheduler on a real cluster with kube-scheduler, kube-controller-manager and the stock eviction API."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from kube.fleet import ENTRY, LoopThread, RealMember, wait_until
from kube.rig import kubectl

from simulate.fixtures import (
    BUDGETS,
    CRDS,
    DEPLOYMENTS,
    GAMES,
    NODES,
    PODS,
    create_game,
    deployment,
    game_crd,
    workload,
)
from trimtab.client.client import Resource
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.errors import ApiError, NotFound
from trimtab.rescheduling.cluster_snapshot import read_cluster_objects
from trimtab.rescheduling.eviction_client import evict, eviction_body
from trimtab.simulate.fleet import FleetPlan, MemberPlan

EVENTS = Resource("", "v1", "events", "Event")
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CROWDED, IDLE = "real-node-1", ("real-node-2", "real-node-3")
MIN_POD_AGE_SECONDS = 1
SETTINGS = f"""
preset: aggressive
interval: 1s
minPodAge: {MIN_POD_AGE_SECONDS}s
objectives: [{{name: UnderutilisedNodes}}, {{name: HardViolation}}, {{name: PoorService}}]
"""


@pytest.fixture(scope="module")
def member_and_loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealMember, LoopThread]]:
    plan = FleetPlan(members=(MemberPlan(name="real", nodes=3, cpu="4"),), pace="instant")
    loop, member = LoopThread(), RealMember(plan.members[0], plan, tmp_path_factory.mktemp("kube"), pods=True)
    try:
        loop.run(member.start())
        yield member, loop
    finally:
        loop.run(member.stop())
        loop.close()


@pytest.fixture(autouse=True)
def reset_member(member_and_loop: tuple[RealMember, LoopThread]) -> Iterator[None]:
    """Each test starts with three empty, uncordoned nodes and no rescheduler state."""
    yield
    member, loop = member_and_loop
    loop.run(empty_member(member))


async def empty_member(member: RealMember) -> None:
    delete = partial(asyncio.to_thread, kubectl, member.plane, "delete", "--ignore-not-found")
    await delete("deployments,poddisruptionbudgets,events", "--all")
    await delete("customresourcedefinitions", "--all")
    await delete("configmap", "trimtab-rescheduler-state", "-n", "kube-system")
    await delete("pods", "--all", "--force")
    await wait_until(lambda: is_empty(member), pause=0.2)
    for node in member.kubelets.machines:
        left = {
            "metadata": {"annotations": {AVOID_PODS_ANNOTATION: None}},
            "spec": {"taints": None, "unschedulable": None},
        }
        await member.client.patch(NODES, "", node, left)


async def is_empty(member: RealMember) -> bool:
    return not (await member.client.list(PODS, "default")).items


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "rescheduler.yaml"
    file.write_text(SETTINGS)
    return file


def trimtab(member: RealMember, *arguments: str) -> list[str]:
    return [sys.executable, "-c", ENTRY, *arguments, "--kubeconfig", str(member.plane.kubeconfig)]


def plan_output(member: RealMember, settings: Path) -> str:
    command = trimtab(member, "reschedule", "--plan", "--config", str(settings))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def ready_pods_by_node(member: RealMember) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in (await member.client.list(PODS, "default")).items:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])
        if ready and not pod["metadata"].get("deletionTimestamp"):
            found[pod["spec"]["nodeName"]] = found.get(pod["spec"]["nodeName"], 0) + 1
    return found


async def cordon(member: RealMember, *nodes: str, closed: bool) -> None:
    for node in nodes:
        await member.client.patch(NODES, "", node, {"spec": {"unschedulable": closed or None}})


async def crowd_node(member: RealMember, replicas: int = 6) -> None:
    """Place all pods on one node of three, with a budget that allows one disruption at a time."""
    await cordon(member, *IDLE, closed=True)
    await member.client.create(DEPLOYMENTS, deployment(replicas=replicas, cpu="500m"))
    await member.client.create(BUDGETS, budget("web"))
    await wait_until(lambda: is_spread_as(member, {CROWDED: replicas}), pause=0.2)
    await cordon(member, *IDLE, closed=False)
    await asyncio.sleep(MIN_POD_AGE_SECONDS + 1)  # times of creation are whole seconds


def budget(name: str) -> dict[str, Any]:
    body = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    return workload("PodDisruptionBudget", name, body, "policy/v1")


async def is_spread_as(member: RealMember, wanted: dict[str, int]) -> bool:
    return await ready_pods_by_node(member) == wanted


async def annotations(member: RealMember, node: str) -> dict[str, str]:
    found: dict[str, str] = (await member.client.get(NODES, "", node))["metadata"].get("annotations") or {}
    return found


def test_real_cluster_is_balanced_within_its_budget_and_then_unchanged(
    member_and_loop: tuple[RealMember, LoopThread], settings: Path
) -> None:
    member, loop = member_and_loop
    loop.run(crowd_node(member))
    output = plan_output(member, settings)
    assert "1 pod moves" in output
    assert "75 % of the cpu of real-node-1 is requested, more than 70 %" in output
    assert "interference is not evaluated" in output  # there is no metrics server
    assert loop.run(ready_pods_by_node(member)) == {CROWDED: 6}  # a plan changes nothing
    running = subprocess.Popen(trimtab(member, "rescheduler", "--config", str(settings)), process_group=0)
    try:
        fewest = loop.run(min_ready_until_settled(member))
    finally:
        running.terminate()
        running.wait(20)
    assert fewest >= 5
    assert running.returncode == 0
    spread = loop.run(ready_pods_by_node(member))
    assert spread[CROWDED] == 5  # 62 % is below the threshold
    assert sum(spread.values()) == 6
    loop.run(assert_recorded_state(member))


def test_second_rescheduler_takes_over_when_the_leader_is_killed(
    member_and_loop: tuple[RealMember, LoopThread], settings: Path
) -> None:
    member, loop = member_and_loop
    loop.run(crowd_node(member, 7))
    arguments = ("rescheduler", "--config", str(settings), "--leader-elect", "--lease-seconds=5")
    pair = [subprocess.Popen(trimtab(member, *arguments), process_group=0) for _ in range(2)]
    try:
        loop.run(wait_until(lambda: has_left_on_crowded_node(member, 6), pause=0.1))
        first = loop.run(lease_holder(member))
        (leader,) = [process for process in pair if f"_{process.pid}_" in first]
        (other,) = [process for process in pair if process is not leader]
        leader.kill()
        loop.run(wait_until(lambda: is_leader(member, other), pause=0.1))
        loop.run(wait_until(lambda: has_left_on_crowded_node(member, 5), pause=0.1))
        assert other.poll() is None
        other.terminate()
        assert other.wait(20) == 0
        assert loop.run(lease_holder(member)) == ""
    finally:
        for process in pair:
            process.kill()
            process.wait(20)
    state = loop.run(member.client.get(CONFIGS, "kube-system", "trimtab-rescheduler-state"))["data"]
    moves = orjson.loads(state["history.json"])["moves"]
    assert [move["source"] for move in moves] == [CROWDED] * 2  # no move is lost, none is made twice
    assert sum(loop.run(ready_pods_by_node(member)).values()) == 7


async def has_left_on_crowded_node(member: RealMember, count: int) -> bool:
    spread = await ready_pods_by_node(member)
    return spread[CROWDED] == count and sum(spread.values()) == 7


async def lease_holder(member: RealMember) -> str:
    lease = await member.client.get(LEASES, "kube-system", "trimtab-rescheduler")
    return str(lease["spec"].get("holderIdentity") or "")


async def is_leader(member: RealMember, process: "subprocess.Popen[bytes]") -> bool:
    return f"_{process.pid}_" in await lease_holder(member)


async def min_ready_until_settled(member: RealMember) -> int:
    """The minimum of ready pods until the node is relieved and for a while after."""
    fewest, deadline, quiet = 6, time.monotonic() + 60, 0.0
    while quiet < 5.0:
        assert time.monotonic() < deadline, "no pod was moved"
        spread = await ready_pods_by_node(member)
        fewest = min(fewest, sum(spread.values()))
        done = spread.get(CROWDED) == 5 and sum(spread.values()) == 6
        quiet = quiet + 0.2 if done else 0.0
        await asyncio.sleep(0.2)
    return fewest


async def assert_recorded_state(member: RealMember) -> None:
    """Check the recorded state: events on the pod and its owner, the avoid list and the history."""
    output = [one for one in (await member.client.list(EVENTS, "default")).items if one["reason"] == "Rescheduled"]
    assert {one["involvedObject"]["kind"] for one in output} == {"Pod", "ReplicaSet"}
    assert len(output) == 2
    (entry,) = orjson.loads((await annotations(member, CROWDED))[AVOID_PODS_ANNOTATION])["preferAvoidPods"]
    assert entry["podSignature"]["podController"]["kind"] == "ReplicaSet"
    assert entry["podSignature"]["podController"]["uid"]
    state = (await member.client.get(CONFIGS, "kube-system", "trimtab-rescheduler-state"))["data"]
    assert state["summary"] == "1 moves in a day, 1 arrived, 0 wasted"


def test_overlapping_budgets_are_named_because_the_server_refuses_the_eviction(
    member_and_loop: tuple[RealMember, LoopThread], settings: Path
) -> None:
    member, loop = member_and_loop
    loop.run(crowd_node(member))
    loop.run(forbid_crowded_node(member))
    output = plan_output(member, settings)
    assert "0 pods move" in output
    assert "BlockedByOverlap: the budgets other and web both select it" in output
    fault = loop.run(eviction_refusal(member))
    assert (fault.code, "more than one PodDisruptionBudget" in fault.message) == (500, True)


async def forbid_crowded_node(member: RealMember) -> None:
    """The node gets a taint that its pods do not tolerate, and a second budget selects them."""
    await member.client.create(BUDGETS, budget("other"))
    await member.client.patch(NODES, "", CROWDED, {"spec": {"taints": [{"key": "bad", "effect": "NoSchedule"}]}})


async def eviction_refusal(member: RealMember) -> ApiError:
    pod = next(p for p in (await member.client.list(PODS, "default")).items if p["spec"]["nodeName"] == CROWDED)
    try:
        await evict(member.client, pod, eviction_body(pod))
    except ApiError as fault:
        return fault
    raise AssertionError("the pod was evicted")


def test_replicas_of_a_custom_owner_kind_are_read_from_its_scale(
    member_and_loop: tuple[RealMember, LoopThread],
) -> None:
    member, loop = member_and_loop
    facts = loop.run(read_facts(member))
    assert [(owner.name, owner.replicas) for owner in facts.other_owners] == [("Game/chess", 3)]
    assert facts.rejects_overlap
    assert facts.policy is None


async def read_facts(member: RealMember) -> ClusterObjects:
    await member.client.create(CRDS, game_crd())
    await wait_until(lambda: is_served(member), pause=0.2)
    await create_game(cast("Any", member), 3)
    return await read_cluster_objects(member.client, is_stock=True)


async def is_served(member: RealMember) -> bool:
    try:
        await member.client.list(GAMES, "default")
    except NotFound:
        return False
    return True
