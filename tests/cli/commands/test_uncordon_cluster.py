"""`trimtab uncordon-cluster` on a fleet in memory."""

from click.testing import CliRunner
from move_helpers import MoveScenario, run_scenario

from trimtab.api.kinds.cluster import CORDON_TAINT, Cluster
from trimtab.cli.commands import uncordon_cluster
from trimtab.cli.commands.drain_cluster import start_drain
from trimtab.cli.commands.uncordon_cluster import command


def test_help_lists_the_kubeconfig_option() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def test_uncordon_removes_the_cordon_and_the_drain_and_keeps_other_taints(monkeypatch) -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.set_taints("m1", "other:NoSchedule")
        await start_drain(scene.client, "m1")
        assert CORDON_TAINT in [taint.key for taint in (await scene.get(Cluster, "m1")).spec.taints]
        pending = []
        monkeypatch.setattr(uncordon_cluster, "with_client", lambda _, __, work: pending.append(work(scene.client)))
        result = CliRunner().invoke(command, ["m1"])
        await pending[0]
        assert result.output == "cluster/m1 uncordoned\n"
        cluster = await scene.get(Cluster, "m1")
        assert [taint.key for taint in cluster.spec.taints] == ["other"]
        assert "trimtab.dev/drain" not in cluster.metadata.annotations

    run_scenario(act)
