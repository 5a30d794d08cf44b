"""`trimtab unjoin` on a fleet in memory: it drains first, and refuses when something cannot leave."""

import asyncio
from typing import Any

import click
import pytest
from click.testing import CliRunner
from move_helpers import MoveScenario, aggregated, run_scenario

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Raw
from trimtab.cli.commands import unjoin
from trimtab.cli.commands.unjoin import UnjoinOptions, command, remove, wait_until_removed
from trimtab.client.client import resource_of
from trimtab.clock import run_virtually
from trimtab.errors import InputError, NotFound
from trimtab.runtime.observe_only import begin_observing

CLUSTERS = resource_of(kind_of(Cluster))
CLOSED = {"windows": [{"schedule": "0 22 * * *", "duration": "1h"}]}
QUICK = UnjoinOptions(600)


class FakeHost:
    """An API server whose cluster is removed after a number of reads."""

    def __init__(self, reads: int) -> None:
        self.reads = reads

    async def get(self, *_: Any) -> Raw:
        self.reads -= 1
        if self.reads < 0:
            raise NotFound("not found")
        return {"metadata": {"name": "east"}, "spec": {}}


@pytest.fixture(autouse=True)
def wall_clock_of_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    from trimtab.clock import LoopClock

    monkeypatch.setattr(unjoin, "WallClock", LoopClock)


def test_help_says_that_a_refusal_undoes_the_drain() -> None:
    text = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "undoes its drain" in text
    assert "--force" in text


def test_wait_ends_when_the_cluster_is_removed() -> None:
    host = FakeHost(reads=5)
    run_virtually(wait_until_removed(host, "east", 120))  # type: ignore[arg-type]
    assert host.reads == -1


def test_cluster_that_is_not_removed_in_time_is_reported() -> None:
    with pytest.raises(InputError, match="cluster east is not removed within 120 s; the removal continues"):
        run_virtually(wait_until_removed(FakeHost(reads=10_000), "east", 120))  # type: ignore[arg-type]


async def place_in_m2(scene: MoveScenario, *also: str) -> None:
    await scene.create_deployment(replicas=2)
    for name in also:
        await scene.set_taints(name, "closed:NoSchedule")
    await scene.create_policy(aggregated("m2", *also))
    await scene.wait_until_settled("web", {"m2": 2})
    for name in also:
        await scene.set_taints(name)
    scene.record_lowest_ready()


async def cluster_names(scene: MoveScenario) -> list[str]:
    return [cluster.name for cluster in await scene.list_all(Cluster)]


def test_cluster_is_removed_after_its_workloads_have_moved(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, "m1")
        assert await remove(scene.client, "m2", QUICK) == 0
        assert await cluster_names(scene) == ["m1", "m3"]
        await scene.wait_until_settled("web", {"m1": 2})
        assert scene.lowest_ready["web"] >= 2

    run_scenario(act, pace="typical")
    output = capsys.readouterr().out
    assert "deployment/default/web moving" in output
    assert output.endswith("cluster/m2 drained\ncluster m2 removed\n")


@pytest.mark.parametrize(("also", "budget", "why"), [
    (("m1",), CLOSED, "budget careful: no window is open until 2030-01-01 22:00:00Z"),
    ((), None, "cannot continue Drain"),
])  # fmt: skip
def test_refusal_names_what_blocks_and_leaves_the_cluster_as_it_was(capsys, also, budget, why) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, *also)
        if budget is not None:
            await scene.create_budget(**budget)
        assert await remove(scene.client, "m2", QUICK) == 1
        await asyncio.sleep(30)
        cluster = await scene.get(Cluster, "m2")
        assert (cluster.spec.taints, cluster.metadata.deletion_timestamp) == ((), None)
        assert "trimtab.dev/drain" not in cluster.metadata.annotations
        assert not [one for one in cluster.status.conditions if one.type == "Drained"]
        assert scene.ready_pods() == {"m2": 2}
        assert scene.lowest_ready["web"] == 2

    run_scenario(act)
    refused = capsys.readouterr().err
    assert "cluster m2 is not removed: 1 cannot leave now: deployment/default/web: " in refused
    assert why in refused
    assert "It stays joined and is uncordoned" in refused


def test_budget_that_opens_in_time_is_waited_for() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, "m1")
        await scene.create_budget(windows=[{"schedule": "5 0 * * *", "duration": "1h"}])
        assert await remove(scene.client, "m2", QUICK) == 0
        assert await cluster_names(scene) == ["m1", "m3"]

    run_scenario(act)


def test_refusal_restores_a_drain_that_was_there_before() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        await unjoin.start_drain(scene.client, "m2")
        before = await scene.get(Cluster, "m2")
        assert await remove(scene.client, "m2", QUICK) == 1
        after = await scene.get(Cluster, "m2")
        assert (after.spec, after.metadata.annotations) == (before.spec, before.metadata.annotations)

    run_scenario(act)


def test_without_a_control_plane_nothing_is_deleted(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, "m1")
        await scene.fleet.stop_plane()
        assert await remove(scene.client, "m2", QUICK) == 1
        cluster = await scene.get(Cluster, "m2")
        assert (cluster.metadata.deletion_timestamp, cluster.spec.taints) == (None, ())

    run_scenario(act)
    assert "no control plane has begun to drain it" in capsys.readouterr().err


def test_force_lists_what_is_lost_and_asks(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        monkeypatch.setattr(click, "confirm", lambda _: False)
        assert await remove(scene.client, "m2", UnjoinOptions(600, force=True)) == 1
        cluster = await scene.get(Cluster, "m2")
        assert (cluster.metadata.deletion_timestamp, cluster.metadata.annotations) == (None, {})
        monkeypatch.setattr(click, "confirm", lambda _: pytest.fail("--yes must not ask"))
        assert await remove(scene.client, "m2", UnjoinOptions(600, force=True, yes=True)) == 0
        assert await cluster_names(scene) == ["m1", "m3"]
        assert scene.ready_pods() == {}

    run_scenario(act)
    output = capsys.readouterr().out
    lost = "deployment/default/web loses 2 of 2 replicas in m2; this is the only cluster that has it"
    assert output.count(lost) == 2
    assert "nothing is deleted in cluster m2" in output


def test_no_wait_deletes_the_cluster_which_leaves_when_it_is_empty(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        assert await remove(scene.client, "m2", UnjoinOptions(600, wait=False)) == 0
        await asyncio.sleep(60)
        assert scene.ready_pods() == {"m2": 2}
        with pytest.raises(InputError, match="cannot continue Drain"):
            await remove(scene.client, "m2", UnjoinOptions(60))  # it is being deleted: that cannot be undone
        assert await remove(scene.client, "m2", UnjoinOptions(600, force=True, yes=True)) == 0

    run_scenario(act)
    assert "is being removed" in capsys.readouterr().out


def test_upstream_deletes_at_once() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, "m1")
        await scene.create_budget(**CLOSED)
        assert await remove(scene.client, "m2", QUICK) == 0
        assert "m2" not in await cluster_names(scene)

    run_scenario(act, profile=UPSTREAM)


def test_copies_in_a_cluster_that_does_not_answer_are_named(capsys) -> None:
    async def act(scene: MoveScenario) -> None:
        scene.world["m2"].stop_api()
        await asyncio.sleep(60)
        assert await remove(scene.client, "m2", QUICK) == 0
        assert "copies in it stay there, and are deleted when it joins this fleet again" in capsys.readouterr().err
        assert await remove(scene.client, "m3", QUICK) == 0
        assert capsys.readouterr().err == ""

    run_scenario(act)


def test_no_cluster_is_removed_while_a_restored_host_only_observes() -> None:
    async def act(scene: MoveScenario) -> None:
        await begin_observing(scene.client, "restored")
        for options in (QUICK, UnjoinOptions(600, force=True, yes=True)):
            with pytest.raises(InputError, match="cannot be removed while the host only observes \\(restored\\)"):
                await remove(scene.client, "m2", options)
        assert "m2" in await cluster_names(scene)

    run_scenario(act)
