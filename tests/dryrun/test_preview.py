"""Previews of a rebalance and of an edited policy on a fleet in memory."""

from datetime import UTC, datetime

from builders import placement
from move_helpers import MoveScenario, divided, run_scenario

from cli.scenarios import place_four_replicas_in_m1
from trimtab.api.kinds.policy import PropagationPolicy, ResourceSelector
from trimtab.cli.commands.rebalance import workload_selector
from trimtab.client.lookups import list_typed, workload_reference
from trimtab.dryrun.preview import preview_policies, preview_rebalance

DEPLOYMENTS = ResourceSelector(api_version="apps/v1", kind="Deployment")
CONFIG_MAPS = ResourceSelector(api_version="v1", kind="ConfigMap", name="idle")
NOW = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)


def test_preview_of_a_rebalance_shows_the_move_and_moves_nothing() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        spec = {
            "workloads": [
                await workload_reference(scene.client, name, "default") for name in ("deploy/web", "deploy/ghost")
            ]
        }
        heading, ghost, web = (await preview_rebalance(scene.client, spec, NOW)).splitlines()
        assert heading.split() == ["WORKLOAD", "NOW", "THEN", "NOTE"]
        assert ghost.split(maxsplit=3) == ["Deployment/default/ghost", "-", "-", "no binding with a placement"]
        assert web.split() == ["Deployment/default/web", "m1:4", "m1:2", "m2:2", "replacement", "first"]
        assert await scene.placement_of() == {"m1": 4}

    run_scenario(act)


def test_preview_of_a_rebalance_names_the_budget_that_delays_it() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        await scene.create_budget(minAvailable=5)
        spec = {"selectors": [await workload_selector(scene.client, "deploy", "", "team in (blue, red),!legacy")]}
        text = await preview_rebalance(scene.client, spec, NOW)
        assert "delayed: budget careful: 1 replicas are already missing" in text
        gentle = {**spec, "strategy": "PreserveAvailable"}
        assert "m1:4   m1:4   no change" in await preview_rebalance(scene.client, gentle, NOW)

    run_scenario(act)


def test_preview_of_a_policy_shows_moved_claimed_and_released_workloads() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        await scene.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "idle", "namespace": "default"}}
        )
        policy = (await list_typed(scene.client, PropagationPolicy))[0]
        edited = policy.but(spec=policy.spec.but(placement=placement(**divided(("m2", 1)))))
        wider = edited.but(spec=edited.spec.but(resource_selectors=(DEPLOYMENTS, CONFIG_MAPS)))
        _, web = (await preview_policies(scene.client, [edited], NOW)).splitlines()
        assert web.split()[:3] == ["Deployment/default/web", "m1:4", "m2:4"]
        _, idle, _ = (await preview_policies(scene.client, [wider], NOW)).splitlines()
        assert idle.split(maxsplit=3)[:2] == ["ConfigMap/default/idle", "-"]
        assert "would claim it" in idle
        unselected = edited.but(spec=edited.spec.but(resource_selectors=(DEPLOYMENTS.but(name="other"),)))
        assert "no longer selected" in await preview_policies(scene.client, [unselected], NOW)
        assert "no change" in await preview_policies(scene.client, [policy], NOW)
        other = policy.but(metadata=policy.metadata.but(name="other"), spec=unselected.spec)
        assert await preview_policies(scene.client, [other], NOW) == "These policies select no workload."
        assert await scene.placement_of() == {"m1": 4}

    run_scenario(act)
