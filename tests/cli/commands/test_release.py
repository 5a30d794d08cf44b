"""`trimtab release`: the mark that a restore leaves is removed."""

import asyncio
from pathlib import Path

from cli.commands.test_apiserver import RunningServer
from cli.processes import run_command
from members.test_join import CREDENTIALS, FACTS, MemberClient, run_scenario
from trimtab.cli.commands import release
from trimtab.members.join import CLUSTER_NAMESPACE, CONTROL_PLANE, NAMESPACES, join
from trimtab.runtime.control_plane_identity import read_identity
from trimtab.runtime.observe_only import begin_observing, reason_to_observe
from trimtab.server.local import LocalClient


def test_a_restored_host_is_released_once(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", str(tmp_path / "backup")
    kubeconfig = ("--kubeconfig", str(data / "kubeconfig"))
    server = RunningServer(data)
    assert run_command("backup", backup, *kubeconfig).code == 0
    assert server.stop() == 0
    restored = run_command("restore", backup, "--data-dir", str(data), "--force")
    assert "trimtab release starts them" in restored.out
    server = RunningServer(data)
    assert run_command("release", *kubeconfig).out.startswith("the controllers start, as control plane ")
    assert run_command("release", *kubeconfig).out == "nothing to release: the controllers may run\n"
    assert server.stop() == 0


def test_restore_without_observing_leaves_no_mark(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", str(tmp_path / "backup")
    kubeconfig = ("--kubeconfig", str(data / "kubeconfig"))
    server = RunningServer(data)
    assert run_command("backup", backup, *kubeconfig).code == 0
    assert server.stop() == 0
    assert run_command("restore", backup, "--data-dir", str(data), "--force", "--no-observe").code == 0
    server = RunningServer(data)
    assert run_command("release", *kubeconfig).out == "nothing to release: the controllers may run\n"
    assert server.stop() == 0


def test_release_holds_the_members_under_a_new_id_and_the_original_does_not_free_them(monkeypatch) -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        monkeypatch.setattr(release, "client_from_secret", lambda *_: member)
        original = (await read_identity(host)).own
        await join(host, member, "east", CREDENTIALS, FACTS)
        assert await release.release(host, ()) == ["nothing to release: the controllers may run"]
        await begin_observing(host, "restored")
        (line,) = await release.release(host, ())
        identity = await read_identity(host)
        assert line == f"the controllers start, as control plane {identity.own}"
        assert identity.own != original
        assert await reason_to_observe(host) is None
        assert await holder(member) == identity.own

        (line,) = await release.release(host, ("another",))
        second = await read_identity(host)
        assert second.former == {original, identity.own, "another"}
        assert await holder(member) == second.own

        await member.patch(NAMESPACES, "", CLUSTER_NAMESPACE, {"metadata": {"annotations": {CONTROL_PLANE: "foreign"}}})
        told, _ = await release.release(host, ("gone",))
        assert "held by another control plane (foreign)" in told
        assert await holder(member) == "foreign"

    run_scenario(scenario)


def test_member_that_does_not_answer_does_not_keep_a_host_from_its_release(monkeypatch) -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        async def hang(*_: object) -> None:
            await asyncio.sleep(3600)

        monkeypatch.setattr(release, "client_from_secret", lambda *_: member)
        await join(host, member, "east", CREDENTIALS, FACTS)
        await begin_observing(host, "restored")
        monkeypatch.setattr(member, "get", hang)
        told, _ = await release.release(host, ())
        assert told.startswith("cluster east does not answer (TimeoutError)")
        assert await reason_to_observe(host) is None

    run_scenario(scenario)


async def holder(member: MemberClient) -> str:
    annotations: dict[str, str] = (await member.get(NAMESPACES, "", CLUSTER_NAMESPACE))["metadata"]["annotations"]
    return annotations[CONTROL_PLANE]
