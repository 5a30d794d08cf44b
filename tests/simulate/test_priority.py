import asyncio

import pytest

from simulate.fixtures import (
    DEPLOYMENTS,
    ORDERS,
    POLICIES,
    condition,
    create_classes,
    create_pod,
    deployment,
    fleet,
    run_in_member,
    running_apps,
    singleton,
    workload,
)
from trimtab.client.client import Resource
from trimtab.errors import Forbidden, Invalid
from trimtab.simulate.member import SimulatedMember

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
ONE_NODE = fleet(nodes=1, cpu="2")


def test_unknown_priority_class_is_refused_and_rules_set_a_default() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, low=10)
        rules = [
            {"podSelector": {"matchLabels": {"app": "web"}}, "priorityClassName": "high"},
            {"priorityClassName": "low"},
        ]
        await member.client.create(POLICIES, singleton("DisruptionPolicy", priorityRules=rules))
        with pytest.raises(Forbidden, match="no PriorityClass with name hihg"):
            await create_pod(member, "typo", priorityClassName="hihg")
        assert (await create_pod(member, "web"))["spec"]["priority"] == 1000
        assert (await create_pod(member, "other"))["spec"]["priorityClassName"] == "low"
        await member.client.patch(POLICIES, "", "default", {"spec": {"priorityRules": [{"priorityClassName": "gone"}]}})
        with pytest.raises(Forbidden, match="a rule of the DisruptionPolicy default gives it the PriorityClass gone"):
            await create_pod(member, "ruled")

    run_in_member(scenario)


def test_priority_order_must_match_values_and_breaks_ties() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, gold=1000, silver=1000, bronze=10)
        with pytest.raises(Invalid, match="is above gold"):
            await member.client.create(ORDERS, singleton("PriorityOrder", names=["bronze", "gold"]))
        await member.client.create(DEPLOYMENTS, deployment("silver", 2, cpu="900m", priorityClassName="silver"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("gold", 1, cpu="900m", priorityClassName="gold"))
        await asyncio.sleep(60)
        assert running_apps(member) == ["silver", "silver"]
        await member.client.create(ORDERS, singleton("PriorityOrder", names=["gold", "silver", "bronze"]))
        await asyncio.sleep(600)
        assert running_apps(member) == ["gold", "silver"]

    run_in_member(scenario, ONE_NODE)


def test_quotas_count_each_priority_separately() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_classes(member, high=1000, low=10)
        scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
        body = {"hard": {"pods": "1", "requests.cpu": "10"}, "scopeSelector": scope}
        await member.client.create(QUOTAS, workload("ResourceQuota", "high", body, "v1"))
        await create_pod(member, "first", priorityClassName="high")
        with pytest.raises(Forbidden, match="exceeded quota: high, requested: pods=1, used: pods=1, limited: pods=1"):
            await create_pod(member, "second", priorityClassName="high")
        await create_pod(member, "third", priorityClassName="low")
        await asyncio.sleep(5)
        status = (await member.client.get(QUOTAS, "default", "high"))["status"]
        assert status["used"] == {"pods": "1", "requests.cpu": "100m"}
        await member.client.create(POLICIES, singleton("DisruptionPolicy", limitedPriorities=["low"]))
        with pytest.raises(Forbidden, match="insufficient quota to match these scopes"):
            await create_pod(member, "fourth", priorityClassName="low")
        await member.client.create(ORDERS, singleton("PriorityOrder", names=["high", "low"]))
        await asyncio.sleep(5)
        order_status = (await member.client.get(ORDERS, "", "default"))["status"]
        overcommitted = condition(order_status, "TopPriorityOvercommitted")
        assert (overcommitted["type"], overcommitted["status"]) == ("TopPriorityOvercommitted", "True")

    run_in_member(scenario, ONE_NODE)


def test_policy_and_order_with_unknown_class_are_not_ready() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(POLICIES, singleton("DisruptionPolicy", limitedPriorities=["high"]))
        await member.client.create(ORDERS, singleton("PriorityOrder", names=["high"]))
        await asyncio.sleep(5)
        for resource in (POLICIES, ORDERS):
            ready = condition((await member.client.get(resource, "", "default"))["status"], "Ready")
            assert (ready["status"], ready["message"]) == ("False", "there is no PriorityClass high")
        await create_classes(member, high=1000)
        await asyncio.sleep(5)
        for resource in (POLICIES, ORDERS):
            assert condition((await member.client.get(resource, "", "default"))["status"], "Ready")["status"] == "True"

    run_in_member(scenario)
