import asyncio
from typing import Any

import pytest

from simulate.scenery import BUDGETS, CLASSES, DEPLOYMENTS, PODS, deployment, fleet, in_a_member, template, workload
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.errors import Forbidden, Invalid
from trimtab.simulate.fleet import Pace
from trimtab.simulate.member import Member

ORDERS = Resource("trimtab.dev", "v1alpha1", "priorityorders", "PriorityOrder", namespaced=False)
POLICIES = Resource("trimtab.dev", "v1alpha1", "disruptionpolicies", "DisruptionPolicy", namespaced=False)
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
        (said,) = (await member.client.get(ORDERS, "", "default"))["status"]["conditions"]
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
        await member.client.create(DEPLOYMENTS, deployment("low", 2, cpu="1", terminationGracePeriodSeconds=40))
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
