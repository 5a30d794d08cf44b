"""The API server with its data directory."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.server import daemon as daemon_module
from trimtab.server.auth.certificates import renew_certificates
from trimtab.server.daemon import KEY_RING, Daemon, ServedApplications


def test_kubeconfig_names_the_listening_port_and_mounted_servers(tmp_path: Path) -> None:
    async def scenario() -> None:
        daemon = Daemon(tmp_path, "127.0.0.1", 0)
        await daemon.start(ServedApplications(daemon.api.app, {"m1": "/clusters/m1"}))
        try:
            config = yaml.safe_load(daemon.kubeconfig.read_text())
            servers = {one["name"]: one["cluster"]["server"] for one in config["clusters"]}
            assert servers == {"trimtab": daemon.url, "m1": f"{daemon.url}/clusters/m1"}
            assert not daemon.url.endswith(":0")
        finally:
            await daemon.stop()

    asyncio.run(scenario())


def test_secrets_survive_a_restart(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, bytes]:
        daemon = Daemon(tmp_path, "127.0.0.1", 0)
        await daemon.start()
        await daemon.stop()
        pki = tmp_path / "pki"
        return (pki / "admin.token").read_text(), next((pki / KEY_RING).glob("*.key")).read_bytes()

    assert asyncio.run(scenario()) == asyncio.run(scenario())


def test_data_directory_and_secrets_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    directory = tmp_path / "data"

    async def run_once() -> None:
        daemon = Daemon(directory, "127.0.0.1", 0)
        await daemon.start()
        await daemon.stop()

    def wide() -> list[Path]:
        return [path for path in (directory, *directory.rglob("*")) if path.stat().st_mode & 0o077]

    asyncio.run(run_once())
    assert wide() == []
    member = directory / "members" / "m1"
    member.mkdir(parents=True)
    for name in ("store.db", "service-account.key"):
        (member / name).touch()
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    asyncio.run(run_once())
    assert wide() == []


def test_other_files_in_the_data_directory_keep_their_mode(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.touch()
    other.chmod(0o644)

    async def run_once() -> None:
        daemon = Daemon(tmp_path, "127.0.0.1", 0)
        await daemon.start()
        await daemon.stop()

    asyncio.run(run_once())
    assert other.stat().st_mode & 0o777 == 0o644


def test_running_server_renews_its_certificates_and_its_clients_follow(tmp_path: Path) -> None:
    async def scenario() -> None:
        daemon = Daemon(tmp_path, "127.0.0.1", 0)
        await daemon.start()
        credentials = load(daemon.kubeconfig)
        client = KubeClient(credentials, clock := _MovableClock())
        try:
            before = await _server_certificate(daemon)
            assert (await client.fetch("/version")).code == 200
            now = datetime.now(UTC)
            _replace_certificates(daemon, now - timedelta(days=300))
            await daemon.renew_certificates(now)
            after = await _server_certificate(daemon)
            assert after != before
            assert load(daemon.kubeconfig).cert != credentials.cert
            clock.ahead = timedelta(minutes=5)
            assert (await client.fetch("/version")).code == 200
            assert client._transport._tokens._credentials.cert == load(daemon.kubeconfig).cert
            await daemon.renew_certificates(now)
            assert await _server_certificate(daemon) == after
        finally:
            await client.close()
            await daemon.stop()

    asyncio.run(scenario())


def test_certificates_are_checked_regularly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_module, "_RENEWAL_CHECK_SECONDS", 0.01)

    async def scenario() -> None:
        daemon = Daemon(tmp_path, "127.0.0.1", 0)
        await daemon.start()
        try:
            before = await _server_certificate(daemon)
            (tmp_path / "pki" / "server.crt").unlink()
            async with asyncio.timeout(60):
                while await _server_certificate(daemon) == before:
                    pass
        finally:
            await daemon.stop()

    asyncio.run(scenario())


def _replace_certificates(daemon: Daemon, issued: datetime) -> None:
    """Write certificates that were issued at another time."""
    for path in (daemon.directory / "pki").glob("*.crt"):
        if path != daemon.authority.certificate:
            path.unlink()
    renew_certificates(daemon.authority, daemon._addresses, issued)


class _MovableClock(WallClock):
    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def _server_certificate(daemon: Daemon) -> str:
    port = int(daemon.url.rpartition(":")[2])
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
