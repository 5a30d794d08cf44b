import asyncio

from simulate.fixtures import BUDGETS, DEPLOYMENTS, deployment, run_in_member, workload
from trimtab.cli.support.pod_report import explain_pod
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.rescheduling.eviction_client import PODS, evict, eviction_body
from trimtab.simulate.member import SimulatedMember

OURS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
SELECTOR = {"matchLabels": {"app": "web"}}


def test_pod_report_shows_budgets_and_whether_an_eviction_is_allowed() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=4))
        strength = {"maxUnavailable": 2, "selector": SELECTOR}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "web", strength, "policy/v1"))
        rate = {"target": "Pods", "selector": SELECTOR, "rate": {"disruptions": 1, "period": "1h"}}
        await member.client.create(OURS, workload("DisruptionBudget", "calm", rate, "trimtab.dev/v1alpha1"))
        await asyncio.sleep(5)
        name, other = sorted(pod.name for pod in member.pods)[:2]

        async def report(which: str) -> str:
            return " ".join((await explain_pod(member.client, "default", which, LoopClock().now())).split())

        before = await report(name)
        assert "PodDisruptionBudget web 2 4 2 - -" in before
        assert "DisruptionBudget calm - 4 any 0 of 1 in 1h -" in before
        assert before.endswith("eviction allowed now: yes")
        seen = await member.client.get(PODS, "default", other)
        await evict(member.client, seen, eviction_body(seen))
        await asyncio.sleep(10)
        after = await report(name)
        assert "1 of 1 in 1h, next at 01:00:05" in after
        assert "eviction allowed now: no: The disruption budget calm does not allow evicting pods currently" in after
        assert after.endswith("(retry in 3590 s)")

    run_in_member(scenario)
