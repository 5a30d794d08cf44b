import asyncio

from simulate.fixtures import BUDGETS, DEPLOYMENTS, deployment, in_a_member, workload
from trimtab.cli.commands.explain import pod_meant
from trimtab.cli.support.pod_report import pod_explained
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.rescheduling.eviction_client import PODS, evict, eviction
from trimtab.simulate.member import Member

OURS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
SELECTOR = {"matchLabels": {"app": "web"}}


def test_a_pod_is_told_with_every_budget_that_guards_it_and_whether_it_may_go() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=4))
        strength = {"maxUnavailable": 2, "selector": SELECTOR}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "web", strength, "policy/v1"))
        rate = {"target": "Pods", "selector": SELECTOR, "rate": {"disruptions": 1, "period": "1h"}}
        await member.client.create(OURS, workload("DisruptionBudget", "calm", rate, "trimtab.dev/v1alpha1"))
        await asyncio.sleep(5)
        name, other = sorted(pod.name for pod in member.pods)[:2]

        async def told(which: str) -> str:
            return " ".join((await pod_explained(member.client, "default", which, LoopClock().now())).split())

        before = await told(name)
        assert "PodDisruptionBudget web 2 4 2 - -" in before
        assert "DisruptionBudget calm - 4 any 0 of 1 in 1h -" in before
        assert before.endswith("may it go now? yes")
        seen = await member.client.get(PODS, "default", other)
        await evict(member.client, seen, eviction(seen))
        await asyncio.sleep(10)
        after = await told(name)
        assert "1 of 1 in 1h, next at 01:00:05" in after
        assert "may it go now? no: The disruption budget calm does not allow evicting pods currently" in after
        assert after.endswith("(again in 3590 s)")

    in_a_member(story)


def test_pods_go_by_their_usual_names() -> None:
    assert (pod_meant("po/web-0"), pod_meant("pods/web-0"), pod_meant("deploy/web")) == ("web-0", "web-0", "")
