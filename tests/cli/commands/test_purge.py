"""`trimtab purge`: the old copy that purge mode Never has kept is deleted on request."""

import asyncio

import pytest
from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import fail_over_from_m1_to_m2
from trimtab.cli.commands.purge import allow_purge, command
from trimtab.errors import InputError


def test_help_lists_the_kubeconfig_option() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def test_old_copy_is_kept_until_it_is_purged() -> None:
    async def act(scene: MoveScenario) -> None:
        def pods() -> list[str]:
            return [pod.name for pod in scene.world["m1"].pods if pod.metadata.namespace == "default"]

        await fail_over_from_m1_to_m2(scene)
        assert pods()
        with pytest.raises(InputError, match="old copies are in: m1"):
            await allow_purge(scene.client, await scene.get_binding(), "m2")
        await allow_purge(scene.client, await scene.get_binding(), "m1")
        await asyncio.sleep(5)
        assert (await scene.get_binding()).spec.graceful_eviction_tasks == ()
        assert pods() == []

    run_scenario(act)
