"""`trimtab rebalance`: selection of workloads, and waiting for the result."""

import pytest
from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_four_replicas_in_m1
from trimtab.cli.commands.rebalance import command, create_rebalancer, wait_until_finished, workload_selector
from trimtab.client.lookups import workload_reference
from trimtab.errors import InputError


def test_help_lists_the_kubeconfig_option() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def test_either_names_or_a_selector_is_required() -> None:
    for arguments in ([], ["deploy/web", "-l", "a=b"]):
        result = CliRunner().invoke(command, arguments)
        assert isinstance(result.exception, InputError)


def test_selector_without_matches_fails(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        spec = {"selectors": [await workload_selector(scene.client, "deploy", "default", "team=nobody")]}
        assert await wait_until_finished(scene.client, await create_rebalancer(scene.client, "now", spec), 30) == 1

    run_scenario(act)
    assert "matches the selector" in capsys.readouterr().out


def test_invalid_selector_is_refused() -> None:
    async def act(scene: MoveScenario) -> None:
        with pytest.raises(InputError, match="team="):
            await workload_selector(scene.client, "deploy", "default", "team=blue=red")

    run_scenario(act)


def test_rebalance_is_reported_until_it_has_finished(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        spec = {"workloads": [await workload_reference(scene.client, "deployment/web", "default")]}
        name = await create_rebalancer(scene.client, "now", spec)
        assert await wait_until_finished(scene.client, name, 120) == 0
        assert await scene.placement_of() == {"m1": 2, "m2": 2}

    run_scenario(act)
    assert "m1:4 -> m1:2 m2:2" in capsys.readouterr().out
