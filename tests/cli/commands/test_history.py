"""`trimtab history`: the rows of moves, and the names by which they are found."""

import msgspec
import pytest
from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_four_replicas_in_m1
from trimtab.api.kinds.disruption import Move
from trimtab.cli.commands.history import command, is_about, move_row
from trimtab.cli.commands.rebalance import create_rebalancer, wait_until_finished
from trimtab.client.lookups import list_typed, workload_reference


def test_help_lists_the_kubeconfig_option() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def move(**status: object) -> Move:
    raw = {
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"},
        "cause": "Rebalance",
        "from": "m1",
        "to": [{"name": "m2", "replicas": 2}],
        "replicas": 2,
    }
    return msgspec.convert({"metadata": {"name": "x"}, "spec": raw, "status": status}, Move, strict=False)


def test_row_shows_cause_clusters_and_duration() -> None:
    done = move(started="2030-01-01T00:00:00Z", finished="2030-01-01T00:00:07.500000Z", outcome="Done")
    cells = move_row(done)
    assert cells[:6] == ("2030-01-01 00:00:00", "default/web", "Rebalance", "m1", "m2:2", "2")
    assert cells[7:9] == ("7.5s", "Done")


def test_unfinished_move_is_in_progress() -> None:
    cells = move_row(move(started="2030-01-01T00:00:00Z"))
    assert cells[7:9] == ("-", "in progress")


@pytest.mark.parametrize("name", ["", "web", "web-deployment", "deploy/web", "Deployment/web", "rb/web-deployment"])
def test_move_is_found_by_workload_and_binding(name: str) -> None:
    assert is_about(move(), name)


@pytest.mark.parametrize("name", ["other", "statefulset/web", "rb/other-deployment"])
def test_move_of_another_workload_is_not_found(name: str) -> None:
    assert not is_about(move(), name)


def test_move_of_a_rebalance_is_in_the_history() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        spec = {"workloads": [await workload_reference(scene.client, "deployment/web", "default")]}
        assert await wait_until_finished(scene.client, await create_rebalancer(scene.client, "now", spec), 120) == 0
        (recorded,) = await list_typed(scene.client, Move)
        assert move_row(recorded)[1:6] == ("default/web", "Rebalance", "m1", "m2:2", "2")
        assert is_about(recorded, "web-deployment")
        assert not is_about(recorded, "other")

    run_scenario(act)
