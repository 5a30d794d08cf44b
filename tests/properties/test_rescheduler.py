"""The rescheduler does not move pods back and forth and reaches a stable state, even when it is restarted."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from properties.hypothesis_settings import example_settings
from simulate.fixtures import DEPLOYMENTS, NODES, deployment, fleet, run_in_member
from trimtab.api.profile import TRIMTAB
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION
from trimtab.decide.rescheduling.history import REVERSAL_WINDOW, MoveRecord, ReschedulingHistory
from trimtab.errors import NotFound
from trimtab.rescheduling.configuration import NAMESPACE
from trimtab.rescheduling.rescheduler import Rescheduler
from trimtab.rescheduling.stored_history import STATE
from trimtab.simulate.member import SimulatedMember

CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")
OBJECTIVES = ("UnderutilisedNodes", "BetterAffinity", "HardViolation", "Consolidate", "Defragment")
PREFERRED_LABEL = "home"
"""The label of the node that an application prefers."""

apps = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["300m", "700m", "1500m"]), st.booleans()), min_size=2, max_size=4
)
disturbances = st.lists(
    st.tuples(st.sampled_from(["flip", "flip", "forget", "cordon", "taint", "restart", "kill"]), st.integers(0, 3)),
    min_size=1,
    max_size=5,
)
thresholds = st.sampled_from([5.0, 60.0])


@example_settings(2, thorough=4)
@given(apps, disturbances, thresholds)
@example([(2, "300m", True), (1, "300m", False)], [("flip", 1), ("flip", 0), ("forget", 0), ("flip", 1)], 60.0)
def test_pods_do_not_move_back_and_forth_and_settled_cluster_is_unchanged(
    sizes: list[tuple[int, str, bool]], script: list[tuple[str, int]], threshold: float
) -> None:
    async def story(member: SimulatedMember) -> None:
        await create_workloads(member, sizes, threshold)
        seen: dict[str, MoveRecord] = {}
        for disturbance, number in script:
            await disturb(member, disturbance, list(member.kubelets.machines)[number])
            await record_moves(member, seen, minutes=20)
        await record_moves(member, seen, minutes=150)
        rescheduled_events = [
            one for one in (await member.client.list(EVENTS, "default")).items if one["reason"] == "Rescheduled"
        ]
        assert {
            one["involvedObject"]["uid"] for one in rescheduled_events if one["involvedObject"]["kind"] == "Pod"
        } <= seen.keys()
        assert_no_ping_pong(list(seen.values()), threshold)
        before = await observable_state(member)
        await asyncio.sleep(3600)
        assert await observable_state(member) == before

    run_in_member(story, fleet(nodes=4))


async def create_workloads(member: SimulatedMember, sizes: list[tuple[int, str, bool]], threshold: float) -> None:
    nodes = list(member.kubelets.machines)
    for number, (replicas, cpu, has_preference) in enumerate(sizes):
        here = {"key": PREFERRED_LABEL, "operator": "In", "values": [f"app{number}"]}
        await prefer_node(member, f"app{number}", nodes[number % len(nodes)])
        preferred_term = {"weight": 50, "preference": {"matchExpressions": [here]}}
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred_term]}}
        more: dict[str, Any] = {"affinity": affinity} if has_preference else {}
        await member.client.create(DEPLOYMENTS, deployment(f"app{number}", replicas, cpu=cpu, **more))
    text = yaml.safe_dump(
        {"preset": "aggressive", "gainThreshold": threshold, "objectives": [{"name": name} for name in OBJECTIVES]}
    )
    metadata = {"name": "trimtab-rescheduler", "namespace": NAMESPACE}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rescheduler.yaml": text}}
    await member.client.create(CONFIGS, body)


async def prefer_node(member: SimulatedMember, app: str, node: str) -> None:
    """Make this node the only one that the application prefers."""
    for one in member.kubelets.machines:
        labels = (await member.client.get(NODES, "", one))["metadata"]["labels"]
        if one == node or labels.get(PREFERRED_LABEL) == app:
            await member.client.patch(
                NODES, "", one, {"metadata": {"labels": {PREFERRED_LABEL: app if one == node else None}}}
            )


async def disturb(member: SimulatedMember, disturbance: str, node: str) -> None:
    if disturbance == "flip":
        await prefer_node(member, "app0", node)
    elif disturbance == "forget":  # avoid lists are cleared; the move history remains
        for one in member.kubelets.machines:
            await member.client.patch(NODES, "", one, {"metadata": {"annotations": {AVOID_PODS_ANNOTATION: None}}})
    elif disturbance == "restart":
        await member.rescheduler.stop()
        member.rescheduler = Rescheduler(member.internal_client, clock=LoopClock(), profile=TRIMTAB, embedded=True)
        await member.rescheduler.start()
    elif disturbance == "cordon":
        await member.cordon(node)
        await asyncio.sleep(600)
        await member.cordon(node, unschedulable=False)
    elif disturbance == "taint":
        await member.client.patch(NODES, "", node, {"spec": {"taints": [{"key": "bad", "effect": "NoSchedule"}]}})
        await asyncio.sleep(600)
        await member.client.patch(NODES, "", node, {"spec": {"taints": None}})
    else:
        member.kubelets.fail(node)
        await asyncio.sleep(600)
        await member.kubelets.recover(node)


async def record_moves(member: SimulatedMember, moves: dict[str, MoveRecord], minutes: int) -> None:
    """Let time pass and collect every move from the rescheduler's history."""
    for _ in range(minutes):
        await asyncio.sleep(60)
        try:
            state = (await member.client.get(CONFIGS, NAMESPACE, STATE))["data"]
        except NotFound:
            continue
        for move in msgspec.json.decode(state["history.json"], type=ReschedulingHistory).moves:
            moves[move.pod] = move


def assert_no_ping_pong(moves: list[MoveRecord], threshold: float) -> None:
    for move in moves:
        back = [
            other
            for other in moves
            if other.owner == move.owner
            and (other.source, other.target) == (move.target, move.source)
            and timedelta(0) < (other.at or move.at) - move.at < REVERSAL_WINDOW  # type: ignore[operator]
        ]
        assert all(other.gain >= 2 * threshold for other in back)


async def observable_state(member: SimulatedMember) -> tuple[Any, ...]:
    """Everything that a rescheduler changes: pods and its state."""
    try:
        state = (await member.client.get(CONFIGS, NAMESPACE, STATE))["metadata"]["resourceVersion"]
    except NotFound:
        state = ""
    pods = sorted((pod.metadata.uid, pod.spec.node_name) for pod in member.pods)
    return pods, state
