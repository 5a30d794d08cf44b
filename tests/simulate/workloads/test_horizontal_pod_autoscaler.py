import asyncio
from typing import Any

from simulate.fixtures import DEPLOYMENTS, deployment, fleet, run_in_member
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")


def autoscaler(target: str) -> dict[str, Any]:
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 25}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": target, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }


def test_autoscaler_scales_its_target_and_reports_conditions() -> None:
    async def reasons(member: SimulatedMember, name: str) -> list[str]:
        status = (await member.client.get(AUTOSCALERS, "default", name))["status"]
        return [one["reason"] for one in status["conditions"]]

    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(10)
        for name in ("web", "none"):
            await member.client.create(AUTOSCALERS, autoscaler(name))
        await asyncio.sleep(120)
        assert (await member.client.get(DEPLOYMENTS, "default", "web"))["spec"]["replicas"] == 4
        assert await reasons(member, "web") == ["ReadyForNewScale", "ValidMetricFound", "TooManyReplicas"]
        assert await reasons(member, "none") == ["FailedGetScale"]

    run_in_member(scenario, fleet(cpu="4"))
