import asyncio

import pytest

from simulate.fixtures import BUDGETS, DEPLOYMENTS, PODS, condition, deployment, run_in_member, status, workload
from trimtab.errors import TooManyRequests
from trimtab.simulate.member import SimulatedMember


def test_budget_status_counts_allowed_disruptions_and_eviction_obeys_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=4))
        body = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "web", body, "policy/v1"))
        await asyncio.sleep(5)
        seen = await status(member.client, BUDGETS, "web")
        assert condition(seen, "DisruptionAllowed")["reason"] == "SufficientPods"
        counts = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
        assert [seen[name] for name in counts] == [4, 4, 3, 1]
        first, second = member.pods[:2]
        for pod, allowed in ((first, True), (second, False)):
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": "default"},
            }
            if allowed:
                await member.client.submit(PODS, "default", pod.name, "eviction", eviction)
            else:
                with pytest.raises(TooManyRequests):
                    await member.client.submit(PODS, "default", pod.name, "eviction", eviction)
        await asyncio.sleep(5)
        assert len([pod for pod in member.pods if pod.is_ready]) == 4

    run_in_member(scenario)
