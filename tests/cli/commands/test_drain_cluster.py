"""`trimtab drain-cluster` on a fleet in memory."""

import asyncio

from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_in_m1_and_m2
from trimtab.api.kinds.cluster import CORDON_TAINT, Cluster
from trimtab.cli.commands.drain_cluster import (
    abort_drain,
    bindings_in,
    command,
    start_drain,
    wait_until_drained,
)


def test_help_lists_the_kubeconfig_option() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def test_drained_cluster_is_empty(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web", "shop")
        await start_drain(scene.client, "m1")
        assert await wait_until_drained(scene.client, "m1", 120) == 0
        await scene.wait_until_settled("web", {"m2": 4})
        assert await bindings_in(scene.client, "m1") == []

    run_scenario(act, pace="typical")
    output = capsys.readouterr().out
    assert "deployment/default/web moving: 2 replicas wait for their replacement until" in output
    assert "moved (2 of 2 workloads)" in output
    assert output.endswith("cluster/m1 drained\n")


def test_drain_reports_what_blocks_it_and_until_when(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web", "shop")
        await scene.create_budget(rate={"disruptions": 1, "period": "10m"})
        await asyncio.sleep(1)
        await start_drain(scene.client, "m1")
        assert await wait_until_drained(scene.client, "m1", 60) == 1

    run_scenario(act)
    output = capsys.readouterr().out
    assert "waiting: Drain: budget careful: its rate is exhausted until 2030-01-01 00:1" in output
    assert "not drained within 60 seconds" in output


def test_aborted_drain_uncordons_and_completes_moves_in_progress(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web", "shop")
        await scene.create_budget(maxConcurrent=1)
        await asyncio.sleep(1)
        await start_drain(scene.client, "m1")
        watching = asyncio.ensure_future(wait_until_drained(scene.client, "m1", 120))
        await asyncio.sleep(0.1)
        await abort_drain(scene.client, "m1")
        assert await watching == 1
        await asyncio.sleep(30)
        assert sorted([await scene.placement_of("web"), await scene.placement_of("shop")], key=len) == [
            {"m2": 4},
            {"m1": 2, "m2": 2},
        ]
        for name in ("web", "shop"):
            binding = await scene.get_binding(name)
            assert not binding.status.holds
            assert not [c for c in binding.status.conditions if c.type == "Stalled" and c.status == "True"]
        cluster = await scene.get(Cluster, "m1")
        assert (cluster.spec.taints, "trimtab.dev/drain" in cluster.metadata.annotations) == ((), False)

    run_scenario(act)
    output = capsys.readouterr().out
    assert "cluster/m1 drain aborted, uncordoned; 1 workload stays, 1 move in progress" in output
    assert "the drain was aborted" in output


def test_cluster_cordoned_before_a_drain_stays_cordoned_after_abort() -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.set_taints("m1", f"{CORDON_TAINT}:NoSchedule")
        await start_drain(scene.client, "m1")
        await start_drain(scene.client, "m1")
        await abort_drain(scene.client, "m1")
        cluster = await scene.get(Cluster, "m1")
        assert [taint.key for taint in cluster.spec.taints] == [CORDON_TAINT]
        assert "trimtab.dev/drain" not in cluster.metadata.annotations

    run_scenario(act)


def test_drain_without_another_cluster_reports_that_it_waits(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.create_deployment(replicas=2)
        await scene.create_policy({"clusterAffinity": {"clusterNames": ["m1"]}})
        await scene.wait_until_settled("web", {"m1": 2})
        await start_drain(scene.client, "m1")
        assert await wait_until_drained(scene.client, "m1", 20) == 1

    run_scenario(act)
    assert "waiting: cannot continue Drain" in capsys.readouterr().out
