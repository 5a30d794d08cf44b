import asyncio
import random

from simulate.fixtures import DEPLOYMENTS, deployment, run_in_member, run_in_world
from trimtab.api.kinds.native.pod import Pod, PodSpec
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.simulate.fleet import Pace, flows_fleet
from trimtab.simulate.kubelets.behaviour import (
    ANNOTATION_PREFIX,
    NEVER_READY,
    OUT_OF_MEMORY,
    BehaviourOverride,
    default_behaviour,
)
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.world import World


def test_override_applies_to_running_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(60)
        assert member.pods[0].is_ready
        member.kubelets.override_behaviour(BehaviourOverride("leak", OUT_OF_MEMORY, namespace="default"))
        await asyncio.sleep(10)
        last = member.pods[0].status.container_statuses[0].last_state.terminated
        assert last is not None
        assert (last.reason, last.exit_code) == ("OOMKilled", 137)

    run_in_member(scenario)


def test_override_keeps_pods_unready_on_one_member() -> None:
    async def scenario(world: World) -> None:
        world["member1"].kubelets.override_behaviour(BehaviourOverride("unready", NEVER_READY))
        for member in world:
            await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(5)
        assert [sum(pod.is_ready for pod in member.pods) for member in world] == [0, 2, 2]

    run_in_world(flows_fleet(), scenario)


def test_annotations_change_the_default_behaviour_and_invalid_ones_are_ignored() -> None:
    annotations = {
        f"{ANNOTATION_PREFIX}start": "5",
        f"{ANNOTATION_PREFIX}exit-code": "3",
        f"{ANNOTATION_PREFIX}ready": "soon",
        f"{ANNOTATION_PREFIX}healthy": "false",
    }
    pod = Pod(metadata=Meta(name="web", namespace="default", annotations=annotations))
    behaviour = default_behaviour(pod, Pace(start=1, ready=2), random.Random(0))
    assert (behaviour.start, behaviour.ready, behaviour.exit_code, behaviour.healthy) == (5.0, 2, 3, False)


def test_override_selects_by_namespace_node_and_labels() -> None:
    pod = Pod(
        metadata=Meta(name="web", namespace="default", labels={"app": "web"}), spec=PodSpec(node_name="one-node-1")
    )
    assert BehaviourOverride("all", {}).applies_to(pod)
    assert BehaviourOverride(
        "here", {}, "default", LabelSelector(match_labels={"app": "web"}), "one-node-1"
    ).applies_to(pod)
    assert not BehaviourOverride("elsewhere", {}, node="one-node-2").applies_to(pod)
    assert not BehaviourOverride("other", {}, namespace="kube-system").applies_to(pod)
