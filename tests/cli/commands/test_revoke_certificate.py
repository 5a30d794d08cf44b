"""`trimtab revoke-certificate` shuts a client out of a running server, and its administrator gets a new certificate."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.processes import LIMIT
from trimtab.cli.commands.revoke_certificate import serial_of
from trimtab.cli.main import trimtab
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, load
from trimtab.errors import InputError


async def is_accepted(config: Credentials) -> bool:
    client = KubeClient(config)
    try:
        return (await client.fetch("/api/v1/namespaces")).code == 200
    finally:
        await client.close()


def wait_until(is_met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_met():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_file_that_holds_no_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nothing")
    with pytest.raises(InputError, match="holds no certificate"):
        serial_of(tmp_path / "x.pem")


def test_revoked_administrator_is_refused_and_the_kubeconfig_gets_a_new_certificate(kubeconfig: str) -> None:
    directory = Path(kubeconfig).parent
    stolen = load(kubeconfig)
    assert asyncio.run(is_accepted(stolen))
    certificate = str(directory / "pki" / "admin.crt")
    result = CliRunner().invoke(
        trimtab, ["revoke-certificate", certificate, "--reason", "lost laptop", "--data-dir", str(directory)]
    )
    assert result.output == "The certificate is revoked.\n"
    wait_until(lambda: not asyncio.run(is_accepted(stolen)))
    wait_until(lambda: load(kubeconfig).cert != stolen.cert)
    assert asyncio.run(is_accepted(load(kubeconfig)))
    assert "# lost laptop" in (directory / "pki" / "revoked-certificates").read_text()
