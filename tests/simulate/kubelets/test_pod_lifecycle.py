import asyncio
import random
from datetime import UTC, datetime

from simulate.fixtures import DEPLOYMENTS, deployment, run_in_member
from trimtab.api.kinds.native.pod import Pod, PodSpec
from trimtab.api.value import Meta
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.programs import ContainerContext
from trimtab.simulate.kubelets.behaviour import CRASH, Behaviour, BehaviourOverride
from trimtab.simulate.kubelets.pod_lifecycle import MAX_STEPS_AT_ONCE, PodLifecycle
from trimtab.simulate.member import SimulatedMember


def test_crashing_container_is_restarted_with_exponential_backoff() -> None:
    async def scenario(member: SimulatedMember) -> None:
        member.kubelets.override_behaviour(BehaviourOverride("crash", CRASH))
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        counts = []
        for _ in range(5):
            await asyncio.sleep(30)
            (pod,) = member.pods
            counts.append(pod.status.container_statuses[0].restart_count)
        assert counts == [1, 2, 3, 3, 3]
        container = member.pods[0].status.container_statuses[0]
        assert container.state.waiting is not None
        assert container.state.waiting.reason == "CrashLoopBackOff"
        assert container.last_state.terminated is not None
        assert container.last_state.terminated.reason == "Error"
        member.kubelets.remove_override("crash")
        await asyncio.sleep(300)
        assert member.pods[0].is_ready

    run_in_member(scenario)


def lifecycle(behaviour: Behaviour, restart_policy: str) -> PodLifecycle:
    pod = Pod(metadata=Meta(name="web", namespace="default"), spec=PodSpec(restart_policy=restart_policy))
    raw = {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    return PodLifecycle(pod, raw, behaviour, 0.0, lambda moment: datetime.fromtimestamp(moment, tz=UTC))


def test_successful_pod_without_restarts_succeeds_at_its_end() -> None:
    pod = lifecycle(Behaviour(start=2, ready=1, stop=0, run=10), "Never")
    assert pod.advance(0.0) == 2
    assert pod.advance(2.0) == 3
    assert (pod.is_ready(2.0), pod.is_ready(3.0)) == (False, True)
    assert pod.advance(3.0) == 12
    assert pod.advance(12.0) is None
    assert pod.phase == "Succeeded"


def test_backoff_doubles_up_to_its_limit_and_is_reset_after_a_long_run() -> None:
    pod = lifecycle(Behaviour(start=0, ready=0, stop=0, run=None, crash=1.0), "Always")
    pauses, now = [], 1.0
    for _ in range(7):
        resumes = pod.advance(now)
        assert resumes is not None
        pauses.append(resumes - now)
        now = resumes + 1.0
    assert pauses == [10, 20, 40, 80, 160, 300, 300]
    pod.change_behaviour(pod.behaviour._replace(crash=600.0), now)
    now += 599.0
    assert pod.advance(now) == now + 10


def test_busy_programs_of_many_containers_take_turns() -> None:
    pod = Pod(metadata=Meta(name="web", namespace="default"), spec=PodSpec())
    busy = {"image": "busybox", "command": ["sh", "-c", "while true; do :; done"]}
    busy["readinessProbe"] = {"exec": {"command": busy["command"]}}
    raw = {"spec": {"containers": [{"name": f"c{number}", **busy} for number in range(50)]}}
    behaviour = Behaviour(start=0, ready=0, stop=0, run=None)
    many = PodLifecycle(
        pod,
        raw,
        behaviour,
        0.0,
        lambda moment: datetime.fromtimestamp(moment, tz=UTC),
        lambda _: ContainerContext({}, Files(), random.Random(1)),
    )
    done = 0
    for _ in range(100):
        assert many.advance(1.0) is not None
        steps = sum(container.steps_done for container in many.containers)
        assert steps - done < 5 * MAX_STEPS_AT_ONCE
        done = steps
    assert all(container.steps_done for container in many.containers)
