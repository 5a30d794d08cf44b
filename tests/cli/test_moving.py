"""The commands about moving, against a whole fleet in memory."""

import asyncio

import pytest
from click.testing import CliRunner

from moving import Scene, divided, story
from trimtab.api.kinds.cluster import Cluster
from trimtab.cli import drain_cluster, history, rebalance, uncordon_cluster
from trimtab.cli.drain_cluster import inhabitants, marked, progress
from trimtab.cli.rebalance import created, followed, forecast, meant, selected
from trimtab.cli.shared_moves import everything, reference
from trimtab.errors import InputFault


@pytest.mark.parametrize("module", [rebalance, drain_cluster, uncordon_cluster, history])
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


def test_a_dry_run_shows_what_would_move_and_moves_nothing() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        spec = {"workloads": [await reference(scene.client, "deploy/web", "default")]}
        text = await forecast(scene.client, spec)
        assert "m1:4" in text
        assert "m1:2 m2:2" in text
        assert await scene.where() == {"m1": 4}
        by_label = {"selectors": [await selected(scene.client, "deploy", "default", "team=blue")]}
        assert await meant(scene.client, by_label) == [("Deployment", "default", "web")]

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


def test_a_cluster_is_drained_and_opened_again(capsys) -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=4)
        await scene.policy(divided(("m1", 1), ("m2", 1)))
        await scene.settled("web", {"m1": 2, "m2": 2})
        await marked(scene.client, "m1", drain=True, cordon=True)
        assert await drain_cluster.watched(scene.client, "m1", 120) == 0
        await scene.settled("web", {"m2": 4})
        assert await inhabitants(scene.client, "m1") == []
        await marked(scene.client, "m1", drain=False, cordon=False)
        cluster = await scene.get(Cluster, "m1")
        assert (cluster.spec.taints, "trimtab.dev/drain" in cluster.metadata.annotations) == ((), False)

    story(act)
    assert "1 of 1 workloads have left" in capsys.readouterr().out


def test_a_drain_that_somebody_aborts_says_so(capsys) -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=2)
        await scene.policy({"clusterAffinity": {"clusterNames": ["m1"]}})
        await scene.settled("web", {"m1": 2})
        await marked(scene.client, "m1", drain=True, cordon=True)
        watching = asyncio.ensure_future(drain_cluster.watched(scene.client, "m1", 120))
        await asyncio.sleep(5)
        await marked(scene.client, "m1", drain=False, cordon=True)
        assert await watching == 1

    story(act)
    assert "cannot go on with Drain" in capsys.readouterr().out


def test_the_bar_is_full_when_nothing_was_there() -> None:
    assert progress(0, 0, []).startswith("[##############################]")
