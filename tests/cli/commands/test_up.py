"""`trimtab up` in a process of its own: a kubeconfig, and a fleet that the next start finds again."""

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from cli.processes import CLUSTERS, PROXY, apply_example, eventually, ready_replicas, up, with_kube_client
from trimtab.cli.commands.explain import command as explain_command
from trimtab.cli.commands.up import address_text, welcome_text
from trimtab.cli.commands.up import command as up_command
from trimtab.client.client import Resource
from trimtab.errors import InputError, NotFound

PODS = Resource("", "v1", "pods", "Pod")


def test_up_starts_a_fleet_that_the_next_start_finds_again(tmp_path: Path) -> None:
    with up(tmp_path) as config:
        with_kube_client(config, apply_example)
        eventually(lambda: ready_replicas(config) == 6)
        pods = with_kube_client(config, lambda client: client.list(PODS, "default"), "member1").items
        assert len(pods) == 2
        through = with_kube_client(
            config, lambda client: client.fetch(PROXY.format("member1", "/api/v1/namespaces/default/pods"))
        )
        listed = orjson.loads(through.body)["items"]
        assert {pod["metadata"]["uid"] for pod in listed} == {pod["metadata"]["uid"] for pod in pods}
        assert with_kube_client(config, lambda client: client.fetch(PROXY.format("nobody", "/api"))).code == 404
        result = CliRunner().invoke(explain_command, ["deploy/web", "--kubeconfig", str(config)])
        assert "is placed in member1 (2), member2 (2), member3 (2)" in result.output, result.output
        assert "not available" not in result.output
        assert "selected" in result.output
        anew = CliRunner().invoke(explain_command, ["rb/web-deployment", "--now", "--kubeconfig", str(config)])
        assert "is placed in member1 (2)" in anew.output, anew.output
        with_kube_client(config, lambda client: client.delete(CLUSTERS, "", "member3"))
        eventually(lambda: not cluster_exists(config, "member3"))
    with up(tmp_path) as config:
        eventually(lambda: ready_replicas(config) == 6)
        again = with_kube_client(config, lambda client: client.list(PODS, "default"), "member1").items
        assert {pod["metadata"]["uid"] for pod in pods} <= {pod["metadata"]["uid"] for pod in again}
        assert not cluster_exists(config, "member3")
        result = CliRunner().invoke(explain_command, ["deploy/web", "--kubeconfig", str(config)])
        assert "clusters were feasible" in result.output, (
            "the control plane was restarted: the record is in the binding"
        )


def cluster_exists(kubeconfig: Path, cluster: str) -> bool:
    try:
        with_kube_client(kubeconfig, lambda client: client.get(CLUSTERS, "", cluster))
    except NotFound:
        return False
    return True


def test_welcome_text_names_three_members_and_counts_the_others() -> None:
    text = welcome_text([f"m{n}" for n in range(1, 6)], Path("example.yaml"))
    assert "Simulated members: m1, m2, m3 and 2 more." in text
    assert "kubectl apply -f example.yaml" in text
    assert "trimtab join NAME" in welcome_text([], Path("example.yaml"))


def test_snapshot_needs_a_data_directory_without_a_fleet(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text("{}")
    result = CliRunner().invoke(up_command, ["--from", str(tmp_path / "any.json"), "--data-dir", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "has a fleet already" in str(result.exception)


def test_snapshot_and_a_described_fleet_exclude_each_other(tmp_path: Path) -> None:
    result = CliRunner().invoke(up_command, ["--from", str(tmp_path / "any.json"), "--clusters", "2"])
    assert result.exit_code == 2
    assert "--from cannot be combined" in result.output


def test_up_started_as_a_module_names_the_directory_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trimtab").write_text("#!/bin/sh\n")
    package = tmp_path / "lib" / "trimtab"
    package.mkdir(parents=True)
    (package / "__main__.py").write_text("")
    monkeypatch.setattr("sys.argv", [str(package / "__main__.py"), "up"])
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/usr/bin")
    text = address_text("https://127.0.0.1:6443", tmp_path / "kubeconfig")
    assert text.splitlines()[-1] == f"  export PATH={tmp_path}:$PATH"


def test_up_says_how_to_find_the_command_where_the_path_does_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "trimtab"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(launcher), "up"])
    monkeypatch.setenv("PATH", "/usr/bin")
    text = address_text("https://127.0.0.1:6443", tmp_path / "kubeconfig")
    assert text.splitlines()[-2:] == [
        f"  export KUBECONFIG={tmp_path / 'kubeconfig'}",
        f"  export PATH={tmp_path}:$PATH",
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "PATH" not in address_text("https://127.0.0.1:6443", tmp_path / "kubeconfig")
