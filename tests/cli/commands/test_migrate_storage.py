"""`trimtab migrate-storage`: a server whose objects have the current versions needs nothing."""

from pathlib import Path

from cli.commands.test_apiserver import RunningServer
from cli.processes import run_command


def test_current_objects_are_not_rewritten(tmp_path: Path) -> None:
    server = RunningServer(tmp_path)
    done = run_command("migrate-storage", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert (done.code, done.out) == (0, "all objects are stored in the current versions\n")
    assert server.stop() == 0
