"""`trimtab restore`: a server on restored data."""

import signal
import urllib.error
from pathlib import Path

import pytest

from cli.commands.test_apiserver import RunningServer
from cli.processes import run_command

MAPS = "/api/v1/namespaces/default/configmaps"


def create(server: RunningServer, name: str) -> dict:
    return server.request(MAPS, {"metadata": {"name": name}, "data": {"k": "v"}})


def test_restored_server_keeps_uids_and_keys_and_old_watches_expire(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    server = RunningServer(data)
    kept = create(server, "kept")
    assert run_command("backup", str(backup), "--kubeconfig", str(data / "kubeconfig")).code == 0
    later = create(server, "later")
    running = run_command("restore", str(backup), "--data-dir", str(data), "--force")
    assert (running.code, "a server runs on" in running.err) == (1, True)
    server.stop(signal.SIGKILL)
    refused = run_command("restore", str(backup), "--data-dir", str(data))
    assert (refused.code, "add --force" in refused.err) == (1, True)
    done = run_command("restore", str(backup), "--data-dir", str(data), "--force")
    assert done.code == 0
    assert "The replaced store is in" in done.out
    assert "no certificates" not in done.out

    again = RunningServer(data)
    found = again.request(f"{MAPS}/kept")
    assert found["metadata"]["uid"] == kept["metadata"]["uid"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        again.request(f"{MAPS}/later")
    listed = again.request(MAPS)["metadata"]["resourceVersion"]
    assert int(listed) > int(later["metadata"]["resourceVersion"])
    for known in (kept, later):
        event = again.request(f"{MAPS}?watch=1&resourceVersion={known['metadata']['resourceVersion']}")
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert int(create(again, "new")["metadata"]["resourceVersion"]) > int(listed)
    assert again.stop() == 0


def test_restore_in_a_new_directory_says_what_is_not_in_a_backup(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data")
    kubeconfig = str(tmp_path / "data" / "kubeconfig")
    assert run_command("backup", str(tmp_path / "backup"), "--kubeconfig", kubeconfig).code == 0
    assert server.stop() == 0
    done = run_command("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "new"))
    assert done.code == 0
    assert "pki has no certificates: copy the directory from the old server" in done.out
