"""`trimtab release`: the mark that a restore leaves is removed."""

from pathlib import Path

from cli.commands.test_apiserver import RunningServer
from cli.processes import run_command


def test_a_restored_host_is_released_once(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", str(tmp_path / "backup")
    kubeconfig = ("--kubeconfig", str(data / "kubeconfig"))
    server = RunningServer(data)
    assert run_command("backup", backup, *kubeconfig).code == 0
    assert server.stop() == 0
    restored = run_command("restore", backup, "--data-dir", str(data), "--force")
    assert "trimtab release starts them" in restored.out
    server = RunningServer(data)
    assert run_command("release", *kubeconfig).out == "the controllers start\n"
    assert run_command("release", *kubeconfig).out == "nothing to release: the controllers may run\n"
    assert server.stop() == 0


def test_restore_without_observing_leaves_no_mark(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", str(tmp_path / "backup")
    server = RunningServer(data)
    assert run_command("backup", backup, "--kubeconfig", str(data / "kubeconfig")).code == 0
    assert server.stop() == 0
    assert run_command("restore", backup, "--data-dir", str(data), "--force", "--no-observe").code == 0
    assert not (data / "observe-only").exists()
