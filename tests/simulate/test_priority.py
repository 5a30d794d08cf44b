import asyncio
from typing import Any

import pytest

from simulate.fixtures import (
    BUDGETS,
    CLASSES,
    DEPLOYMENTS,
    PODS,
    condition,
    deployment,
    fleet,
    in_a_member,
    template,
    workload,
)
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.errors import Forbidden, Invalid
from trimtab.simulate.fleet import Pace
from trimtab.simulate.member import Member
from trimtab.simulate.pod_scheduler import Binder

ORDERS = Resource("trimtab.dev", "v1alpha1", "priorityorders", "PriorityOrder", namespaced=False)
POLICIES = Resource("trimtab.dev", "v1alpha1", "disruptionpolicies", "DisruptionPolicy", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
OWN_BUDGETS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
ONE_NODE = fleet(nodes=1, cpu="2")


def singleton(kind: str, **spec: Any) -> Raw:
    return {"apiVersion": "trimtab.dev/v1alpha1", "kind": kind, "metadata": {"name": "default"}, "spec": spec}


async def classes(member: Member, **values: int) -> None:
    for name, value in values.items():
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        await member.client.create(CLASSES, {**body, "value": value})


async def pod(member: Member, name: str, **spec: Any) -> Raw:
    body = template(name, **spec)
    body["metadata"] |= {"name": name, "namespace": "default"}
    return await member.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **body})


def running(member: Member) -> list[str]:
    return sorted(one.metadata.labels["app"] for one in member.pods if one.ready)


def test_an_unknown_priority_is_refused_and_rules_give_one_to_those_who_name_none() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, low=10)
        rules = [
            {"podSelector": {"matchLabels": {"app": "web"}}, "priorityClassName": "high"},
            {"priorityClassName": "low"},
        ]
        await member.client.create(POLICIES, singleton("DisruptionPolicy", priorityRules=rules))
        with pytest.raises(Forbidden, match="no PriorityClass with name hihg"):
            await pod(member, "typo", priorityClassName="hihg")
        assert (await pod(member, "web"))["spec"]["priority"] == 1000
        assert (await pod(member, "other"))["spec"]["priorityClassName"] == "low"
        await member.client.patch(POLICIES, "", "default", {"spec": {"priorityRules": [{"priorityClassName": "gone"}]}})
        with pytest.raises(Forbidden, match="a rule of the DisruptionPolicy default gives it the PriorityClass gone"):
            await pod(member, "ruled")

    in_a_member(story)


def test_an_order_must_not_contradict_values_and_breaks_ties_between_them() -> None:
    async def story(member: Member) -> None:
        await classes(member, gold=1000, silver=1000, bronze=10)
        with pytest.raises(Invalid, match="stands above gold"):
            await member.client.create(ORDERS, singleton("PriorityOrder", names=["bronze", "gold"]))
        await member.client.create(DEPLOYMENTS, deployment("silver", 2, cpu="900m", priorityClassName="silver"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("gold", 1, cpu="900m", priorityClassName="gold"))
        await asyncio.sleep(60)
        assert running(member) == ["silver", "silver"]
        await member.client.create(ORDERS, singleton("PriorityOrder", names=["gold", "silver", "bronze"]))
        await asyncio.sleep(600)
        assert running(member) == ["gold", "silver"]

    in_a_member(story, ONE_NODE)


def test_quotas_count_each_priority_apart() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, low=10)
        scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
        body = {"hard": {"pods": "1", "requests.cpu": "10"}, "scopeSelector": scope}
        await member.client.create(QUOTAS, workload("ResourceQuota", "high", body, "v1"))
        await pod(member, "first", priorityClassName="high")
        with pytest.raises(Forbidden, match="exceeded quota: high, requested: pods=1, used: pods=1, limited: pods=1"):
            await pod(member, "second", priorityClassName="high")
        await pod(member, "third", priorityClassName="low")
        await asyncio.sleep(5)
        status = (await member.client.get(QUOTAS, "default", "high"))["status"]
        assert status["used"] == {"pods": "1", "requests.cpu": "100m"}
        await member.client.create(POLICIES, singleton("DisruptionPolicy", limitedPriorities=["low"]))
        with pytest.raises(Forbidden, match="insufficient quota to match these scopes"):
            await pod(member, "fourth", priorityClassName="low")
        await member.client.create(ORDERS, singleton("PriorityOrder", names=["high", "low"]))
        await asyncio.sleep(5)
        told = (await member.client.get(ORDERS, "", "default"))["status"]
        said = condition(told, "TopPriorityOvercommitted")
        assert (said["type"], said["status"]) == ("TopPriorityOvercommitted", "True")

    in_a_member(story, ONE_NODE)


def test_preemption_breaks_no_budget_and_evicts_nobody_in_vain() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 4, cpu="500m"))
        body = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "low"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "low", body, "policy/v1"))
        await asyncio.sleep(5)
        before = {one.metadata.uid for one in member.pods}
        await pod(member, "large", cpu="1", priorityClassName="high")
        await asyncio.sleep(600)
        assert {one.metadata.uid for one in member.pods if one.metadata.labels["app"] == "low"} == before
        await pod(member, "small", cpu="500m", priorityClassName="high")
        await asyncio.sleep(60)
        assert running(member) == ["low", "low", "low", "small"]

    in_a_member(story, ONE_NODE)


def test_victims_get_their_grace_and_the_room_is_kept_for_whom_it_was_made() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, middle=100)
        for name in ("low", "lower"):
            await member.client.create(DEPLOYMENTS, deployment(name, 1, cpu="1", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(2)
        (waiting,) = [one for one in member.pods if one.name == "high"]
        assert waiting.status.nominated_node_name == "one-node-1" or waiting.spec.node_name == "one-node-1"
        await pod(member, "middle", cpu="1", priorityClassName="middle")
        await asyncio.sleep(120)
        assert running(member) == ["high"]

    in_a_member(story, fleet(nodes=1, cpu="2", pace=Pace(start=1.0, ready=1.0, stop=20.0)))


def test_equals_change_places_only_when_that_is_fair_and_then_no_more() -> None:
    async def story(member: Member) -> None:
        await member.client.create(POLICIES, singleton("DisruptionPolicy", equalPriorityPreemption="Fair"))
        await member.client.create(DEPLOYMENTS, deployment("rich", 4, cpu="500m"))
        await asyncio.sleep(700)
        await member.client.create(DEPLOYMENTS, deployment("poor", 4, cpu="500m"))
        await asyncio.sleep(3600)
        assert running(member) == ["poor", "poor", "rich", "rich"]
        before = sorted(one.metadata.uid for one in member.pods)
        await asyncio.sleep(7200)
        assert sorted(one.metadata.uid for one in member.pods) == before

    in_a_member(story, ONE_NODE)


LARGE_NODE = fleet(nodes=1, cpu="4")


async def restart(member: Member) -> None:
    """The pod scheduler dies with all it had in mind, and a new one begins."""
    await member.binder.stop()
    member.binder = Binder(member.cache, clock=member._ground.clock, profile=member._ground.profile)
    await member.binder.start()


def test_an_owner_without_a_budget_loses_one_of_ten_at_a_time_even_over_restarts() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 4, cpu="1"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 2, cpu="1", priorityClassName="high"))
        await asyncio.sleep(60)
        assert running(member) == ["high", "low", "low", "low"]
        await restart(member)
        await asyncio.sleep(400)
        assert running(member) == ["high", "low", "low", "low"]
        await asyncio.sleep(600)
        assert running(member) == ["high", "high", "low", "low"]  # what nothing replaces counts for ten minutes

    in_a_member(story, LARGE_NODE)


def test_several_preemptors_take_from_several_owners() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000)
        for name in ("first", "second"):
            await member.client.create(DEPLOYMENTS, deployment(name, 2, cpu="1"))
            await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 2, cpu="1", priorityClassName="high"))
        await asyncio.sleep(60)
        assert running(member) == ["first", "high", "high", "second"]

    in_a_member(story, LARGE_NODE)


def test_an_owner_that_was_disrupted_lately_is_not_the_first_to_be_so_again() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000)
        for name in ("first", "second"):
            await member.client.create(DEPLOYMENTS, deployment(name, 2, cpu="1"))
            await asyncio.sleep(5)
        await pod(member, "high", cpu="1", priorityClassName="high")
        await asyncio.sleep(60)
        assert running(member) == ["first", "first", "high", "second"]  # of equals the youngest goes
        await member.client.delete(PODS, "default", "high")
        await asyncio.sleep(60)
        assert running(member) == ["first", "first", "second", "second"]
        await restart(member)
        await pod(member, "higher", cpu="1", priorityClassName="high")
        await asyncio.sleep(60)
        assert running(member) == ["first", "higher", "second", "second"]

    in_a_member(story, LARGE_NODE)


SLOW_END = Pace(start=1.0, ready=1.0, stop=20.0)


def nominated(member: Member, name: str) -> str:
    (found,) = [one for one in member.pods if one.name == name]
    return found.status.nominated_node_name


def test_a_promise_outlives_the_scheduler_that_made_it() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(2)
        assert nominated(member, "high") == "one-node-1"
        await restart(member)
        await pod(member, "middle", cpu="1", priorityClassName="middle")
        await pod(member, "equal", cpu="1", priorityClassName="high")
        await asyncio.sleep(120)
        assert running(member) == ["high"]

    in_a_member(story, fleet(nodes=1, cpu="2", pace=SLOW_END))


def test_a_promise_that_is_not_kept_a_minute_after_the_grace_is_withdrawn() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        member.fail_node("one-node-1")  # nobody there to end the victim
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(95)
        assert nominated(member, "high") == "one-node-1"
        await asyncio.sleep(10)
        assert nominated(member, "high") == ""

    in_a_member(story, fleet(nodes=1, cpu="2"))


def test_whoever_is_more_important_takes_over_a_promise() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2", terminationGracePeriodSeconds=40))
        await asyncio.sleep(5)
        await pod(member, "middle", cpu="2", priorityClassName="middle")
        await asyncio.sleep(5)
        assert nominated(member, "middle") == "one-node-1"
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(5)
        assert (nominated(member, "middle"), nominated(member, "high")) == ("", "one-node-1")
        await asyncio.sleep(120)
        assert running(member) == ["high"]

    in_a_member(story, fleet(nodes=1, cpu="2", pace=SLOW_END))


def test_what_becomes_of_victims_is_foretold() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(10)
        (victim,) = [one for one in member.pods if one.metadata.labels["app"] == "low"]
        events = (await member.client.list(EVENTS, "default")).items
        (told,) = [one for one in events if one["involvedObject"]["name"] == "high" and one["reason"] == "Preempting"]
        assert victim.name not in told["message"]  # this is the replacement
        assert told["message"].startswith("evicts default/low-")
        assert told["message"].endswith(" (no node would take its replacement) from one-node-1")

    in_a_member(story, ONE_NODE)


def test_a_budget_that_does_not_count_preemption_does_not_hinder_it() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000)
        body = {"target": "Pods", "maxUnavailable": 0, "selector": {}, "reasons": ["Drain"]}
        await member.client.create(OWN_BUDGETS, workload("DisruptionBudget", "all", body, "trimtab.dev/v1alpha1"))
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(60)
        assert running(member) == ["high"]

    in_a_member(story, ONE_NODE)


def test_a_budget_over_everybody_guards_pods_from_preemption_too() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, middle=100)
        body = {"maxUnavailable": 0, "selector": {}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "all", body, "policy/v1"))
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="1500m"))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="1", priorityClassName="high")
        await asyncio.sleep(60)
        assert nominated(member, "high") == ""
        assert running(member) == ["low"]

    in_a_member(story, ONE_NODE)


def test_a_policy_can_make_budgets_best_effort() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000)
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        body = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "low", body, "policy/v1"))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(60)
        assert running(member) == ["low"]
        await member.client.create(POLICIES, singleton("DisruptionPolicy", preemptionBudgets="BestEffort"))
        await asyncio.sleep(600)
        assert running(member) == ["high"]

    in_a_member(story, ONE_NODE)


def test_an_owner_with_twice_the_weight_keeps_twice_as_much() -> None:
    async def story(member: Member) -> None:
        await member.client.create(POLICIES, singleton("DisruptionPolicy", equalPriorityPreemption="Fair"))
        rich = deployment("rich", 3, cpu="600m")
        rich["metadata"]["annotations"] = {"trimtab.dev/share-weight": "2"}
        await member.client.create(DEPLOYMENTS, rich)
        await asyncio.sleep(700)
        await member.client.create(DEPLOYMENTS, deployment("poor", 3, cpu="600m"))
        await asyncio.sleep(7200)
        assert running(member) == ["poor", "rich", "rich"]

    in_a_member(story, ONE_NODE)


def test_a_class_can_forbid_its_pods_to_preempt() -> None:
    async def story(member: Member) -> None:
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "polite"}}
        await member.client.create(CLASSES, {**body, "value": 1000, "preemptionPolicy": "Never"})
        await member.client.create(DEPLOYMENTS, deployment("low", 1, cpu="2"))
        await asyncio.sleep(5)
        await pod(member, "polite", cpu="1", priorityClassName="polite")
        await asyncio.sleep(600)
        assert running(member) == ["low"]

    in_a_member(story, ONE_NODE)


def test_room_that_becomes_free_bit_by_bit_is_kept_until_it_is_enough() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, middle=100)
        for name, seconds in (("quick", 1), ("slow", 20)):
            await member.client.create(DEPLOYMENTS, deployment(name, 1, cpu="1", terminationGracePeriodSeconds=seconds))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="2", priorityClassName="high")
        await asyncio.sleep(5)
        assert running(member) == ["slow"]  # which is leaving; the other is gone
        for name, level in (("middle", "middle"), ("equal", "high")):
            await pod(member, name, cpu="1", priorityClassName=level)
        await asyncio.sleep(5)
        assert not any(one.spec.node_name for one in member.pods if one.name in ("middle", "equal"))
        await asyncio.sleep(60)
        assert running(member) == ["high"]

    in_a_member(story, fleet(nodes=1, cpu="2", pace=SLOW_END))


def test_where_a_budget_forbids_it_another_victim_is_found() -> None:
    async def story(member: Member) -> None:
        await classes(member, high=1000, middle=100)
        await member.client.create(DEPLOYMENTS, deployment("guarded", 1, cpu="1500m"))
        body = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "guarded", body, "policy/v1"))
        await member.client.create(DEPLOYMENTS, deployment("free", 1, cpu="1500m", priorityClassName="middle"))
        await asyncio.sleep(5)
        await pod(member, "high", cpu="1500m", priorityClassName="high")
        await asyncio.sleep(60)
        assert running(member) == ["guarded", "high"]

    in_a_member(story, fleet(nodes=2, cpu="2"))


def test_a_policy_and_an_order_that_name_no_class_say_so_until_there_is_one() -> None:
    async def story(member: Member) -> None:
        await member.client.create(POLICIES, singleton("DisruptionPolicy", limitedPriorities=["high"]))
        await member.client.create(ORDERS, singleton("PriorityOrder", names=["high"]))
        await asyncio.sleep(5)
        for resource in (POLICIES, ORDERS):
            said = condition((await member.client.get(resource, "", "default"))["status"], "Ready")
            assert (said["status"], said["message"]) == ("False", "there is no PriorityClass high")
        await classes(member, high=1000)
        await asyncio.sleep(5)
        for resource in (POLICIES, ORDERS):
            assert condition((await member.client.get(resource, "", "default"))["status"], "Ready")["status"] == "True"

    in_a_member(story)
