"""A dry run of a WorkloadRebalancer answers its plan in the status, and writes nothing."""

import asyncio

from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_four_replicas_in_m1
from trimtab.api.kind import kind_of
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.client.client import resource_of

KIND = kind_of(WorkloadRebalancer)
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}


def job(*names: str) -> dict:
    spec = {"workloads": [{**WEB, "name": name} for name in names]}
    return {"apiVersion": KIND.api_version, "kind": KIND.name, "metadata": {"name": "again"}, "spec": spec}


def test_dry_run_has_the_plan_in_its_status_and_the_run_does_it() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        raw = await scene.client.create(resource_of(KIND), job("web", "nope"), dry_run=True)
        nope, web = sorted(raw["status"]["observedWorkloads"], key=lambda item: item["workload"]["name"])
        assert web["workload"] == WEB
        assert web["phase"] == "Pending"
        assert web["before"] == [{"name": "m1", "replicas": 4}]
        assert web["after"] == [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]
        assert web["message"] == "starts now"
        assert (nope["phase"], nope["reason"]) == ("Failed", "NotFound")
        assert raw["status"]["conditions"][0]["type"] == "Planned"
        await asyncio.sleep(60)
        assert (await scene.client.list(resource_of(KIND))).items == []
        assert await scene.placement_of() == {"m1": 4}
        await scene.create(job("web"))
        await scene.wait_until_settled("web", {"m1": 2, "m2": 2})

    run_scenario(act)


def test_workload_that_is_in_its_place_is_said_to_stay() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        await scene.set_taints("m2", "closed:NoSchedule")
        await asyncio.sleep(1)
        raw = await scene.client.create(resource_of(KIND), job("web"), dry_run=True)
        assert [item["phase"] for item in raw["status"]["observedWorkloads"]] == ["NoChange"]

    run_scenario(act)
