"""The state of a fleet as values."""

from datetime import UTC, datetime

from builders import cluster
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_in_m1_and_m2
from trimtab.api.kinds.cluster import Cluster
from trimtab.clock import LoopClock
from trimtab.dryrun.fleet_state import FleetState, fetch_fleet_state

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_changed_state_leaves_the_first_one_as_it_was() -> None:
    state = FleetState.of([cluster("a")], [], NOW)
    more = state.with_objects([cluster("b"), cluster("a", "k:NoSchedule")])
    assert [found.name for found in state.all(Cluster)] == ["a"]
    assert [len(found.spec.taints) for found in more.all(Cluster)] == [1, 0]
    assert more.without(Cluster).all(Cluster) == []
    assert [found.name for found in more.view().all(Cluster)] == ["a", "b"]
    assert list(more.view().fleet.names) == ["a", "b"]


def test_the_state_of_a_server_has_bindings_and_their_templates() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        state = await fetch_fleet_state(scene.client, LoopClock().now())
        assert [binding.name for binding in state.bindings] == ["web-deployment"]
        assert ("default", "web") in state.templates["apps/v1", "Deployment"]
        assert len(state.all(Cluster)) == 3

    run_scenario(act)
