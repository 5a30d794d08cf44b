import asyncio

from simulate.fixtures import DEPLOYMENTS, NODES, PODS, condition, deployment, fleet, in_a_member, in_a_world
from trimtab.simulate.behaviour import CRASH, OUT_OF_MEMORY, Spell
from trimtab.simulate.fleet import Pace, flows_fleet
from trimtab.simulate.member import Member
from trimtab.simulate.world import World


def test_a_pod_starts_and_becomes_ready_in_its_time() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        seen = []
        for _ in range(4):
            await asyncio.sleep(2)
            (pod,) = member.pods
            seen.append((pod.status.phase, pod.ready))
        assert seen == [("Pending", False), ("Running", False), ("Running", False), ("Running", True)]

    in_a_member(story, fleet(pace=Pace(start=3, ready=4)))


def test_a_crashing_container_is_restarted_later_and_later() -> None:
    async def story(member: Member) -> None:
        member.cast(Spell("crash", CRASH))
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
        member.lift("crash")
        await asyncio.sleep(300)
        assert member.pods[0].ready

    in_a_member(story)


def test_pods_that_run_can_be_struck_by_out_of_memory() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(60)
        assert member.pods[0].ready
        member.cast(Spell("leak", OUT_OF_MEMORY, namespace="default"))
        await asyncio.sleep(10)
        last = member.pods[0].status.container_statuses[0].last_state.terminated
        assert last is not None
        assert (last.reason, last.exit_code) == ("OOMKilled", 137)

    in_a_member(story)


def test_pods_of_a_dead_node_are_replaced_elsewhere() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(60)
        dead = member.pods[0].spec.node_name
        member.fail_node(dead)
        await asyncio.sleep(60)
        node = await member.client.get(NODES, "", dead)
        assert condition(node["status"], "Ready")["status"] == "Unknown"
        assert {taint["effect"] for taint in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        assert sum(pod.ready for pod in member.pods) < 3
        await asyncio.sleep(310)
        ready = [pod for pod in member.pods if pod.ready]
        assert len(ready) == 3
        assert dead not in {pod.spec.node_name for pod in ready}
        await member.recover_node(dead)
        await asyncio.sleep(10)
        assert len(member.pods) == 3
        assert not (await member.client.get(NODES, "", dead))["spec"].get("taints")

    in_a_member(story)


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(60)
        names = {pod.name for pod in member.pods}
        node = member.pods[0].spec.node_name
        member.fail_node(node)
        await asyncio.sleep(120)
        await member.recover_node(node)
        await asyncio.sleep(400)
        assert {pod.name for pod in member.pods if pod.ready} == names

    in_a_member(story)


def test_a_lying_cluster_binds_pods_that_its_kubelets_reject() -> None:
    async def story(member: Member) -> None:
        await member.claim(4)
        await member.client.create(DEPLOYMENTS, deployment(replicas=5, cpu="1"))
        await asyncio.sleep(30)
        ready = [pod for pod in member.pods if pod.ready]
        rejected = [pod for pod in member.pods if pod.status.phase == "Failed"]
        assert len(ready) == 2
        assert {pod.status.reason for pod in rejected} == {"OutOfcpu"}

    in_a_member(story, fleet(nodes=1, cpu="2"))


def test_pods_can_be_kept_from_becoming_ready_on_one_member_by_a_label() -> None:
    async def story(world: World) -> None:
        body = deployment(replicas=2)
        body["spec"]["template"]["metadata"]["labels"]["fakelet/notready-on"] = "member1"
        for member in world:
            await member.client.create(DEPLOYMENTS, body)
        await asyncio.sleep(5)
        assert [sum(pod.ready for pod in member.pods) for member in world] == [0, 2, 2]

    in_a_world(flows_fleet(), story)


def test_a_pod_leaves_within_its_grace_period() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1, terminationGracePeriodSeconds=5))
        await asyncio.sleep(2)
        name = member.pods[0].name
        await member.client.delete(PODS, "default", name)
        await asyncio.sleep(4)
        assert name in {pod.name for pod in member.pods}
        await asyncio.sleep(2)
        assert name not in {pod.name for pod in member.pods}

    in_a_member(story, fleet(pace=Pace(stop=60)))


def test_nodes_heartbeat_and_nothing_else_is_written_by_an_idle_cluster() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(60)
        before = member.server.store.revision
        await asyncio.sleep(600)
        assert member.server.store.revision - before == 3 * 60

    in_a_member(story)


def test_a_node_short_of_memory_takes_no_new_pods() -> None:
    async def story(member: Member) -> None:
        await member.press_node("one-node-1", "memory")
        await asyncio.sleep(1)
        await member.client.create(DEPLOYMENTS, deployment(replicas=4))
        await asyncio.sleep(5)
        assert {pod.spec.node_name for pod in member.pods} == {"one-node-2", "one-node-3"}
        await member.press_node("one-node-1", "memory", on=False)
        await asyncio.sleep(1)
        assert not (await member.client.get(NODES, "", "one-node-1"))["spec"].get("taints")

    in_a_member(story)


def test_nodes_come_and_go_and_pods_follow() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(5)
        plan = member.kubelets.machines["one-node-1"].plan
        await member.remove_node("one-node-1")
        await asyncio.sleep(5)
        homes = {pod.spec.node_name for pod in member.pods if pod.ready}
        assert (len(member.pods), homes) == (6, {"one-node-2", "one-node-3"})
        await member.add_node(plan.but(name="late"))
        await asyncio.sleep(1)
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(5)
        assert sum(pod.spec.node_name == "late" for pod in member.pods) == 3

    in_a_member(story)


def test_a_machine_that_takes_the_place_of_a_deleted_one_lives_on_when_the_news_of_that_come_late() -> None:
    async def story(member: Member) -> None:
        plan = member.kubelets.machines["one-node-1"].plan
        await member.client.delete(NODES, "", "one-node-1")
        earlier = member.cache.table(NODES).entries[("", "one-node-1")]  # the news are still on their way
        await member.add_node(plan)
        assert earlier.raw["metadata"]["uid"] != member.kubelets.machines["one-node-1"].uid
        await asyncio.sleep(1)
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(30)
        assert sum(pod.ready for pod in member.pods if pod.spec.node_name == "one-node-1") == 2

    in_a_member(story)
