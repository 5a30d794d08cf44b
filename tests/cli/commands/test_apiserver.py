"""`trimtab apiserver` in a process of its own: it reports when it is ready, keeps its data, and stops on a signal."""

import json
import os
import select
import signal
import ssl
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

from cli.processes import LIMIT

COMMAND = [sys.executable, "-c", "from trimtab.cli.main import main; main()", "apiserver"]


class RunningServer:
    """One run of the command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        command = [*COMMAND, "--data-dir", str(directory), "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert select.select([self.process.stdout], [], [], LIMIT)[0]
        self.line = self.process.stdout.readline()
        self.export = self.process.stdout.readline().strip()

    def request(self, path: str, body: dict | None = None) -> dict:
        context = ssl.create_default_context(cafile=str(self.directory / "pki" / "ca.crt"))
        token = (self.directory / "pki" / "admin.token").read_text()
        message = urllib.request.Request(
            self.line.split()[-1] + path,
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(message, context=context, timeout=LIMIT) as response:
            return json.load(response)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(LIMIT)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def test_data_is_there_again_after_a_restart(tmp_path: Path) -> None:
    first = RunningServer(tmp_path)
    assert "ready" in first.line
    assert first.export == f"export KUBECONFIG={tmp_path / 'kubeconfig'}"
    made = first.request("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}, "data": {"k": "v"}})
    assert first.stop(signal.SIGINT) == 0
    again = RunningServer(tmp_path)
    assert again.request("/api/v1/namespaces/default/configmaps/kept") == made
    assert again.stop() == 0


def test_secrets_on_disk_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    running = RunningServer(tmp_path)
    assert running.stop() == 0
    for path in (*(tmp_path / "pki").iterdir(), tmp_path / "kubeconfig", tmp_path / "store.db"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    running = RunningServer(tmp_path / "a")
    port = running.line.rpartition(":")[2].strip()
    command = [*COMMAND, "--data-dir", str(tmp_path / "b"), "--port", port]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ)
    assert running.stop() == 0
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert f"cannot serve on 127.0.0.1 port {port}" in failed.stderr
