"""`trimtab unblock`: a cluster is removed from the block list of a workload."""

import asyncio

import pytest
from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import fail_over_from_m1_to_m2
from trimtab.cli.commands.purge import allow_purge
from trimtab.cli.commands.unblock import command, unblock_clusters
from trimtab.errors import InputError


def test_help_lists_the_kubeconfig_option() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def test_blocked_cluster_is_unblocked_on_request() -> None:
    async def act(scene: MoveScenario) -> None:
        await fail_over_from_m1_to_m2(scene)
        await allow_purge(scene.client, await scene.get_binding(), "m1")
        with pytest.raises(InputError, match="blocked clusters: m1"):
            await unblock_clusters(scene.client, await scene.get_binding(), ("m3",))
        await asyncio.sleep(5)
        assert await unblock_clusters(scene.client, await scene.get_binding(), ()) == ["m1"]
        with pytest.raises(InputError, match="not blocked in any cluster"):
            await unblock_clusters(scene.client, await scene.get_binding(), ())
        assert (await scene.get_binding()).spec.active_eviction_history == ()

    run_scenario(act)
