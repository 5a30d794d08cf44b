"""The commands about moving, against a whole fleet in memory."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import placement
from click.testing import CliRunner
from move_helpers import Scene, divided, story

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import PropagationPolicy, ResourceSelector
from trimtab.cli.commands import drain_cluster, history, preview, rebalance, uncordon_cluster
from trimtab.cli.commands.drain_cluster import Marks, begun, inhabitants, marked
from trimtab.cli.commands.purge import purged
from trimtab.cli.commands.rebalance import created, followed, selected
from trimtab.cli.commands.unblock import unblocked
from trimtab.client.lookups import everything, reference
from trimtab.dryrun.preview import forecast, previewed
from trimtab.errors import InputFault
from trimtab.simulate.behaviour import NEVER_READY, Spell


@pytest.mark.parametrize("module", [rebalance, preview, drain_cluster, uncordon_cluster, history])
def test_the_commands_explain_themselves(module) -> None:
    result = CliRunner().invoke(module.command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def test_names_or_a_selector_but_not_both() -> None:
    for arguments in ([], ["deploy/web", "-l", "a=b"]):
        result = CliRunner().invoke(rebalance.command, arguments)
        assert isinstance(result.exception, InputFault)


async def crowded(scene: Scene) -> None:
    await scene.taint("m2", "closed:NoSchedule")
    await scene.deploy(replicas=4, labels={"team": "blue"})
    await scene.policy(divided(("m1", 1), ("m2", 1)))
    await scene.settled("web", {"m1": 4})
    await scene.taint("m2")
    await asyncio.sleep(12)


DEPLOYMENTS = ResourceSelector(api_version="apps/v1", kind="Deployment")
CONFIG_MAPS = ResourceSelector(api_version="v1", kind="ConfigMap", name="idle")
NOTHING = "No workload is governed by these policies, and none would be."
NOW = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)


def test_a_dry_run_shows_what_would_move_and_how_and_moves_nothing() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        spec = {
            "workloads": [await reference(scene.client, name, "default") for name in ("deploy/web", "deploy/ghost")]
        }
        heading, ghost, web = (await forecast(scene.client, spec, NOW)).splitlines()
        assert heading.split() == ["WORKLOAD", "NOW", "THEN", "NOTE"]
        assert ghost.split(maxsplit=3) == ["Deployment/default/ghost", "-", "-", "it has no binding with a placement"]
        assert web.split() == ["Deployment/default/web", "m1:4", "m1:2", "m2:2", "replacement", "first"]
        assert await scene.where() == {"m1": 4}

    story(act)


def test_a_dry_run_says_what_must_wait_and_what_stays() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.budget(minAvailable=5)
        spec = {"selectors": [await selected(scene.client, "deploy", "", "team in (blue, red),!legacy")]}
        text = await forecast(scene.client, spec, NOW)
        assert "must wait: budget careful: 1 replicas are missing already" in text
        gentle = {**spec, "strategy": "PreserveAvailable"}
        assert "m1:4   m1:4   no change" in await forecast(scene.client, gentle, NOW)

    story(act)


def test_a_preview_shows_what_an_edited_policy_would_move_lose_and_win_and_moves_nothing() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.make(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "idle", "namespace": "default"}}
        )
        policy = (await everything(scene.client, PropagationPolicy))[0]
        edited = policy.but(spec=policy.spec.but(placement=placement(**divided(("m2", 1)))))
        wider = edited.but(spec=edited.spec.but(resource_selectors=(DEPLOYMENTS, CONFIG_MAPS)))
        _, web = (await previewed(scene.client, [edited], NOW)).splitlines()
        assert web.split()[:3] == ["Deployment/default/web", "m1:4", "m2:4"]
        _, idle, _ = (await previewed(scene.client, [wider], NOW)).splitlines()
        assert idle.split(maxsplit=3)[:2] == ["ConfigMap/default/idle", "-"]
        assert "would claim it" in idle
        nothing = edited.but(spec=edited.spec.but(resource_selectors=(DEPLOYMENTS.but(name="other"),)))
        assert "no longer selected" in await previewed(scene.client, [nothing], NOW)
        assert "no change" in await previewed(scene.client, [policy], NOW)
        stranger = policy.but(metadata=policy.metadata.but(name="stranger"), spec=nothing.spec)
        assert await previewed(scene.client, [stranger], NOW) == NOTHING
        assert await scene.where() == {"m1": 4}

    story(act)


def test_a_preview_takes_policies_alone(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    result = CliRunner().invoke(preview.command, ["-f", str(file)])
    assert "ConfigMap default/a is not a propagation policy" in str(result.exception)


def test_a_selector_that_finds_nothing_is_no_success(capsys) -> None:
    async def act(scene: Scene) -> None:
        spec = {"selectors": [await selected(scene.client, "deploy", "default", "team=nobody")]}
        assert await followed(scene.client, await created(scene.client, "now", spec), 30) == 1

    story(act)
    assert "fits the selector" in capsys.readouterr().out


def test_a_selector_that_cannot_be_read_is_refused() -> None:
    async def act(scene: Scene) -> None:
        with pytest.raises(InputFault, match="team="):
            await selected(scene.client, "deploy", "default", "team=blue=red")

    story(act)


def test_a_rebalance_is_followed_to_its_end(capsys) -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        spec = {"workloads": [await reference(scene.client, "deployment/web", "default")]}
        name = await created(scene.client, "now", spec)
        assert await followed(scene.client, name, 120) == 0
        assert await scene.where() == {"m1": 2, "m2": 2}
        (move,) = await everything(scene.client, history.Move)
        cells = history.row(move)
        assert cells[1:6] == ("default/web", "Rebalance", "m1", "m2:2", "2")
        assert history.concerns(move, "web-deployment")
        assert not history.concerns(move, "other")

    story(act)
    assert "m1:4 -> m1:2 m2:2" in capsys.readouterr().out


async def in_two_clusters(scene: Scene, *names: str) -> None:
    for name in names:
        await scene.deploy(name, replicas=4)
    await scene.policy(divided(("m1", 1), ("m2", 1)))
    for name in names:
        await scene.settled(name, {"m1": 2, "m2": 2})


def test_a_cluster_is_drained_and_opened_again(capsys) -> None:
    async def act(scene: Scene) -> None:
        await in_two_clusters(scene, "web", "shop")
        await begun(scene.client, "m1")
        assert await drain_cluster.watched(scene.client, "m1", 120) == 0
        await scene.settled("web", {"m2": 4})
        assert await inhabitants(scene.client, "m1") == []
        await marked(scene.client, "m1", lambda _: Marks(None, closed=False))
        cluster = await scene.get(Cluster, "m1")
        assert (cluster.spec.taints, "trimtab.dev/drain" in cluster.metadata.annotations) == ((), False)

    story(act, pace="typical")
    said = capsys.readouterr().out
    assert "deployment/default/web moves: 2 replicas wait until their replacement is ready, until" in said
    assert "has left (2 of 2 workloads)" in said
    assert said.endswith("cluster/m1 drained\n")


def test_a_drain_names_what_blocks_it_and_until_when(capsys) -> None:
    async def act(scene: Scene) -> None:
        await in_two_clusters(scene, "web", "shop")
        await scene.budget(rate={"disruptions": 1, "period": "10m"})
        await asyncio.sleep(1)
        await begun(scene.client, "m1")
        assert await drain_cluster.watched(scene.client, "m1", 60) == 1

    story(act)
    said = capsys.readouterr().out
    assert "waits: Drain: budget careful: its rate is spent until 2030-01-01 00:1" in said
    assert "not drained within 60 seconds" in said


def test_an_aborted_drain_opens_the_cluster_and_lets_what_has_begun_end(capsys) -> None:
    async def act(scene: Scene) -> None:
        await in_two_clusters(scene, "web", "shop")
        await scene.budget(maxConcurrent=1)
        await asyncio.sleep(1)
        await begun(scene.client, "m1")
        watching = asyncio.ensure_future(drain_cluster.watched(scene.client, "m1", 120))
        await asyncio.sleep(0.1)
        await drain_cluster.aborted(scene.client, "m1")
        assert await watching == 1
        await asyncio.sleep(30)
        assert sorted([await scene.where("web"), await scene.where("shop")], key=len) == [{"m2": 4}, {"m1": 2, "m2": 2}]
        for name in ("web", "shop"):
            binding = await scene.binding(name)
            assert not binding.status.holds
            assert not [c for c in binding.status.conditions if c.type == "Stalled" and c.status == "True"]
        cluster = await scene.get(Cluster, "m1")
        assert (cluster.spec.taints, "trimtab.dev/drain" in cluster.metadata.annotations) == ((), False)

    story(act)
    said = capsys.readouterr().out
    assert "cluster/m1 is no longer being emptied and open again; 1 workloads stay, 1 that have begun to leave" in said
    assert "given up: somebody aborted it" in said


def test_a_cluster_that_was_closed_before_a_drain_stays_closed_after_it_is_aborted() -> None:
    async def act(scene: Scene) -> None:
        await scene.taint("m1", f"{drain_cluster.CORDON}:NoSchedule")
        await begun(scene.client, "m1")
        await begun(scene.client, "m1")
        await drain_cluster.aborted(scene.client, "m1")
        cluster = await scene.get(Cluster, "m1")
        assert [taint.key for taint in cluster.spec.taints] == [drain_cluster.CORDON]
        assert "trimtab.dev/drain" not in cluster.metadata.annotations

    story(act)


def test_a_drain_without_a_way_out_says_so(capsys) -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=2)
        await scene.policy({"clusterAffinity": {"clusterNames": ["m1"]}})
        await scene.settled("web", {"m1": 2})
        await begun(scene.client, "m1")
        assert await drain_cluster.watched(scene.client, "m1", 20) == 1

    story(act)
    assert "waits: cannot go on with Drain" in capsys.readouterr().out


def test_the_old_copy_is_purged_and_the_block_lifted_when_somebody_says_so() -> None:
    async def act(scene: Scene) -> None:
        scene.world["m1"].cast(Spell("broken", NEVER_READY))
        await scene.deploy(replicas=2)
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 10}, "purgeMode": "Never"}}
        groups = [{"affinityName": name, "clusterNames": [name]} for name in ("m1", "m2")]
        await scene.policy({"clusterAffinities": groups}, failover=failover, propagateDeps=True)
        await asyncio.sleep(60)
        assert await scene.where() == {"m2": 2}
        with pytest.raises(InputFault, match="copies are kept in: m1"):
            await purged(scene.client, await scene.binding(), "m2")
        await purged(scene.client, await scene.binding(), "m1")
        with pytest.raises(InputFault, match="blocked are: m1"):
            await unblocked(scene.client, await scene.binding(), ("m3",))
        await asyncio.sleep(5)
        assert await unblocked(scene.client, await scene.binding(), ()) == ["m1"]
        with pytest.raises(InputFault, match="blocked nowhere"):
            await unblocked(scene.client, await scene.binding(), ())
        binding = await scene.binding()
        assert (binding.spec.graceful_eviction_tasks, binding.spec.active_eviction_history) == ((), ())
        assert [pod for pod in scene.world["m1"].pods if pod.metadata.namespace == "default"] == []

    story(act)
