"""An API server in its own process, for unmodified clients."""

import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class RunningServer(NamedTuple):
    kubeconfig: Path
    url: str
    token: str
    authority: Path


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory = tmp_path_factory.mktemp("apiserver")
    command = [sys.executable, "-c", "from trimtab.cli.main import main; main()", "apiserver", "--port", "0"]
    with subprocess.Popen([*command, "--data-dir", str(directory)], stdout=subprocess.PIPE, text=True) as process:
        assert select.select([process.stdout], [], [], 30)[0], "the server printed nothing"
        line = process.stdout.readline()
        assert "ready" in line, line
        pki = directory / "pki"
        yield RunningServer(
            directory / "kubeconfig", line.split()[-1], (pki / "admin.token").read_text(), pki / "ca.crt"
        )
        process.terminate()
        assert process.wait(15) == 0
