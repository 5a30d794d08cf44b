import asyncio

from simulate.fixtures import (
    BUDGETS,
    CLASSES,
    DEPLOYMENTS,
    PODS,
    POLICIES,
    condition,
    create_classes,
    create_pod,
    deployment,
    fleet,
    run_in_member,
    running_apps,
    singleton,
    status,
    workload,
)
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.errors import TooManyRequests
from trimtab.simulate.fleet import Pace
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.scheduling.pod_scheduler import PodScheduler

ONE_NODE = fleet(nodes=1, cpu="2")


EVENTS = Resource("", "v1", "events", "Event")


OWN_BUDGETS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")


def test_preemption_breaks_no_budget_and_evicts_only_if_the_pod_then_fits() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 4, cpu="500m"))
        body = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "low"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "low", body, "policy/v1"))
        await asyncio.sleep(5)
        before = {one.metadata.uid for one in member.pods}
        await create_pod(member, "large", cpu="1", priorityClassName="high")
        await asyncio.sleep(600)
        assert {one.metadata.uid for one in member.pods if one.metadata.labels["app"] == "low"} == before
        await create_pod(member, "small", cpu="500m", priorityClassName="high")
        await asyncio.sleep(60)
        assert running_apps(member) == ["low", "low", "low", "small"]

    run_in_member(scenario, ONE_NODE)


def test_victims_get_their_grace_period_and_the_node_stays_nominated() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, middle=100)
        for name in ("low", "lower"):
            await member.client.create(DEPLOYMENTS, deployment(name, 1, cpu="1", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(2)
        (waiting,) = [one for one in member.pods if one.name == "high"]
        assert waiting.status.nominated_node_name == "one-node-1" or waiting.spec.node_name == "one-node-1"
        await create_pod(member, "middle", cpu="1", priorityClassName="middle")
        await asyncio.sleep(120)
        assert running_apps(member) == ["high"]

    run_in_member(scenario, fleet(nodes=1, cpu="2", pace=Pace(start=1.0, ready=1.0, stop=20.0)))


def test_fair_preemption_among_equal_priorities_converges() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(POLICIES, singleton("DisruptionPolicy", equalPriorityPreemption="Fair"))
        await member.client.create(DEPLOYMENTS, deployment("rich", 4, cpu="500m"))
        await asyncio.sleep(700)
        await member.client.create(DEPLOYMENTS, deployment("poor", 4, cpu="500m"))
        await asyncio.sleep(3600)
        assert running_apps(member) == ["poor", "poor", "rich", "rich"]
        before = sorted(one.metadata.uid for one in member.pods)
        await asyncio.sleep(7200)
        assert sorted(one.metadata.uid for one in member.pods) == before

    run_in_member(scenario, ONE_NODE)


LARGE_NODE = fleet(nodes=1, cpu="4")


async def restart_scheduler(member: SimulatedMember) -> None:
    """Replace the pod scheduler by a new one without its state in memory."""
    await member.pod_scheduler.stop()
    member.pod_scheduler = PodScheduler(
        member.cache, clock=member._environment.clock, profile=member._environment.profile
    )
    await member.pod_scheduler.start()


def test_owner_without_budget_loses_one_of_ten_pods_at_a_time_across_restarts() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 4, cpu="1"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 2, cpu="1", priorityClassName="high"))
        await asyncio.sleep(60)
        assert running_apps(member) == ["high", "low", "low", "low"]
        await restart_scheduler(member)
        await asyncio.sleep(400)
        assert running_apps(member) == ["high", "low", "low", "low"]
        await asyncio.sleep(600)
        assert running_apps(member) == [
            "high",
            "high",
            "low",
            "low",
        ]  # a missing pod without replacement counts for ten minutes

    run_in_member(scenario, LARGE_NODE)


def test_victims_of_several_preemptors_are_spread_over_owners() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        for name in ("first", "second"):
            await member.client.create(DEPLOYMENTS, deployment(name, 2, cpu="1"))
            await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 2, cpu="1", priorityClassName="high"))
        await asyncio.sleep(60)
        assert running_apps(member) == ["first", "high", "high", "second"]

    run_in_member(scenario, LARGE_NODE)


def test_recently_disrupted_owner_is_not_preempted_first() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        for name in ("first", "second"):
            await member.client.create(DEPLOYMENTS, deployment(name, 2, cpu="1"))
            await asyncio.sleep(5)
        await create_pod(member, "high", cpu="1", priorityClassName="high")
        await asyncio.sleep(60)
        assert running_apps(member) == ["first", "first", "high", "second"]  # among equals the youngest is evicted
        await member.client.delete(PODS, "default", "high")
        await asyncio.sleep(60)
        assert running_apps(member) == ["first", "first", "second", "second"]
        await restart_scheduler(member)
        await create_pod(member, "higher", cpu="1", priorityClassName="high")
        await asyncio.sleep(60)
        assert running_apps(member) == ["first", "higher", "second", "second"]

    run_in_member(scenario, LARGE_NODE)


SLOW_END = Pace(start=1.0, ready=1.0, stop=20.0)


def nominated_node(member: SimulatedMember, name: str) -> str:
    (found,) = [one for one in member.pods if one.name == name]
    return found.status.nominated_node_name


def test_nomination_survives_a_scheduler_restart() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(2)
        assert nominated_node(member, "high") == "one-node-1"
        await restart_scheduler(member)
        await create_pod(member, "middle", cpu="1", priorityClassName="middle")
        await create_pod(member, "equal", cpu="1", priorityClassName="high")
        await asyncio.sleep(120)
        assert running_apps(member) == ["high"]

    run_in_member(scenario, fleet(nodes=1, cpu="2", pace=SLOW_END))


def test_nomination_expires_a_minute_after_the_grace_period() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        member.kubelets.fail("one-node-1")  # no kubelet ends the victim
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(95)
        assert nominated_node(member, "high") == "one-node-1"
        await asyncio.sleep(10)
        assert nominated_node(member, "high") == ""

    run_in_member(scenario, fleet(nodes=1, cpu="2"))


def test_pod_of_higher_priority_takes_over_a_nomination() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        await create_pod(member, "middle", cpu="2", priorityClassName="middle")
        await asyncio.sleep(5)
        assert nominated_node(member, "middle") == "one-node-1"
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(5)
        assert (nominated_node(member, "middle"), nominated_node(member, "high")) == ("", "one-node-1")
        await asyncio.sleep(120)
        assert running_apps(member) == ["high"]

    run_in_member(scenario, fleet(nodes=1, cpu="2", pace=SLOW_END))


def test_preempting_event_predicts_what_happens_to_victims() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(10)
        (victim,) = [one for one in member.pods if one.metadata.labels["app"] == "low"]
        events = (await member.client.list(EVENTS, "default")).items
        (event,) = [one for one in events if one["involvedObject"]["name"] == "high" and one["reason"] == "Preempting"]
        assert victim.name not in event["message"]  # this is the replacement
        assert event["message"].startswith("evicts default/low-")
        assert event["message"].endswith(" (its replacement fits on no node) from one-node-1")

    run_in_member(scenario, ONE_NODE)


def test_budget_that_does_not_count_preemption_does_not_prevent_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        body = {"target": "Pods", "maxUnavailable": 0, "selector": {}, "reasons": ["Drain"]}
        await member.client.create(OWN_BUDGETS, workload("DisruptionBudget", "all", body, "trimtab.dev/v1alpha1"))
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(60)
        assert running_apps(member) == ["high"]

    run_in_member(scenario, ONE_NODE)


def test_budget_with_empty_selector_prevents_preemption() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, middle=100)
        body = {"maxUnavailable": 0, "selector": {}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "all", body, "policy/v1"))
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="1500m"))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="1", priorityClassName="high")
        await asyncio.sleep(60)
        assert nominated_node(member, "high") == ""
        assert running_apps(member) == ["low"]

    run_in_member(scenario, ONE_NODE)


def test_policy_can_make_budgets_best_effort_for_preemption() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        body = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "low", body, "policy/v1"))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(60)
        assert running_apps(member) == ["low"]
        await member.client.create(POLICIES, singleton("DisruptionPolicy", preemptionBudgets="BestEffort"))
        await asyncio.sleep(600)
        assert running_apps(member) == ["high"]

    run_in_member(scenario, ONE_NODE)


def test_owner_with_double_weight_keeps_a_double_share() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(POLICIES, singleton("DisruptionPolicy", equalPriorityPreemption="Fair"))
        rich = deployment("rich", 3, cpu="600m")
        rich["metadata"]["annotations"] = {"trimtab.dev/fair-share-weight": "2"}
        await member.client.create(DEPLOYMENTS, rich)
        await asyncio.sleep(700)
        await member.client.create(DEPLOYMENTS, deployment("poor", 3, cpu="600m"))
        await asyncio.sleep(7200)
        assert running_apps(member) == ["poor", "rich", "rich"]

    run_in_member(scenario, ONE_NODE)


def test_preemption_policy_never_prevents_preemption() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "polite"}}
        await member.client.create(CLASSES, {**body, "value": 1000, "preemptionPolicy": "Never"})
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        await asyncio.sleep(5)
        await create_pod(member, "polite", cpu="1", priorityClassName="polite")
        await asyncio.sleep(600)
        assert running_apps(member) == ["low"]

    run_in_member(scenario, ONE_NODE)


def test_capacity_freed_gradually_is_kept_for_the_nominated_pod() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, middle=100)
        for name, seconds in (("quick", 1), ("slow", 20)):
            await member.client.create(DEPLOYMENTS, deployment(name, 1, cpu="1", terminationGracePeriodSeconds=seconds))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(5)
        assert running_apps(member) == ["slow"]  # which is terminating; the other is deleted
        for name, level in (("middle", "middle"), ("equal", "high")):
            await create_pod(member, name, cpu="1", priorityClassName=level)
        await asyncio.sleep(5)
        assert not any(one.spec.node_name for one in member.pods if one.name in ("middle", "equal"))
        await asyncio.sleep(60)
        assert running_apps(member) == ["high"]

    run_in_member(scenario, fleet(nodes=1, cpu="2", pace=SLOW_END))


def test_preemption_selects_a_victim_without_budget() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("guarded", 1, cpu="1500m"))
        body = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "guarded", body, "policy/v1"))
        await member.client.create(DEPLOYMENTS, deployment("free", 1, cpu="1500m", priorityClassName="middle"))
        await asyncio.sleep(5)
        await create_pod(member, "high", cpu="1500m", priorityClassName="high")
        await asyncio.sleep(60)
        assert running_apps(member) == ["guarded", "high"]

    run_in_member(scenario, fleet(nodes=2, cpu="2"))


def test_pod_of_higher_priority_preempts_one_of_lower_priority() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(
            CLASSES,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
        )
        await member.client.create(DEPLOYMENTS, deployment("low", 3, cpu="1"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 1, cpu="1", priorityClassName="high"))
        await asyncio.sleep(10)
        assert (await status(member.client, DEPLOYMENTS, "high"))["readyReplicas"] == 1
        assert (await status(member.client, DEPLOYMENTS, "low"))["readyReplicas"] == 2

    run_in_member(scenario, fleet(cpu="1"))


def test_budget_without_allowed_disruptions_prevents_preemption() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(
            CLASSES,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
        )
        await member.client.create(DEPLOYMENTS, deployment("low", 3, cpu="1"))
        body = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "low", body, "policy/v1"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 1, cpu="1", priorityClassName="high"))
        await asyncio.sleep(30)
        assert (await status(member.client, DEPLOYMENTS, "low"))["readyReplicas"] == 3
        assert condition(await status(member.client, DEPLOYMENTS, "high"), "Available")["status"] == "False"

    run_in_member(scenario, fleet(cpu="1"))


def test_refused_preemption_is_not_charged_to_the_owner_and_is_retried() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 4, cpu="1"))
        await asyncio.sleep(5)
        client = member.pod_scheduler._client
        original_submit = client.submit
        refuses = True

        async def submit(resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
            if subresource == "eviction" and refuses:
                raise TooManyRequests("refused for now")
            return await original_submit(resource, namespace, name, subresource, obj)

        client.submit = submit
        (owner,) = {one.controller.uid for one in member.pods if one.controller is not None}
        await create_pod(member, "high", cpu="1", priorityClassName="high")
        await asyncio.sleep(5.5)
        counted = member.pod_scheduler._preemptor._ledger.recent_disruptions(member._environment.clock.now())(owner)
        assert (counted.unreplaced, counted.recent) == (0, 0)
        assert (running_apps(member), nominated_node(member, "high")) == (["low"] * 4, "")
        refuses = False
        await asyncio.sleep(60)
        assert running_apps(member) == ["high", "low", "low", "low"]

    run_in_member(scenario, LARGE_NODE)
