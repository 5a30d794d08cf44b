"""Taints of clusters by command."""

from move_helpers import MoveScenario, run_scenario

from trimtab.api.kinds.cluster import Cluster
from trimtab.cli.support.cluster_taints import changed_taints, update_taints
from trimtab.clock import EPOCH
from trimtab.dryrun.change import TaintChange

GPU = TaintChange(cluster="m1", key="gpu", value="old", effect="NoExecute")


def test_taint_is_set_once_and_removed() -> None:
    async def act(scene: MoveScenario) -> None:
        assert await update_taints(scene.client, GPU)
        assert not await update_taints(scene.client, GPU)
        (taint,) = (await scene.get(Cluster, "m1")).spec.taints
        assert (taint.key, taint.value, taint.effect) == ("gpu", "old", "NoExecute")
        assert taint.time_added is not None
        assert await update_taints(scene.client, GPU.but(effect="", remove=True))
        assert (await scene.get(Cluster, "m1")).spec.taints == ()

    run_scenario(act, members=1)


def test_another_value_replaces_the_taint() -> None:
    before = [{"key": "gpu", "effect": "NoSchedule"}, {"key": "x", "effect": "NoSchedule"}]
    after = changed_taints(before, TaintChange(cluster="m1", key="gpu", value="new", effect="NoSchedule"), EPOCH)
    assert after == [before[1], {"key": "gpu", "effect": "NoSchedule", "value": "new"}]
