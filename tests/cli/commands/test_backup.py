"""`trimtab backup` of a server in a process of its own."""

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.commands.test_apiserver import RunningServer
from cli.processes import LIMIT, PYTHON, run_command
from trimtab.cli.commands.backup import write_backup
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import StoreError
from trimtab.runtime.leader_election import LEASES
from trimtab.store.inspection import inspect_store
from trimtab.store.store import Store

MAPS = "/registry/core/configmaps/default/"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def config_map(name: str, data: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"k": data},
    }


def pairs_in(directory: Path) -> list[tuple[str, str]]:
    """The values of `left-N` and `right-N`; a writer changes left first, then right."""
    import orjson

    store = Store.open(directory)
    found = {
        entry.key.removeprefix(MAPS): orjson.loads(entry.value)["data"]["k"]
        for entry in store.list(MAPS).entries
        if "t-" in entry.key
    }
    asyncio.run(store.close())
    return [(found[f"left-{n}"], found.get(f"right-{n}", "0")) for n in range(4) if f"left-{n}" in found]


async def time_of_last_backup(kubeconfig: str) -> datetime:
    client = KubeClient(load(kubeconfig))
    lease = await client.get(LEASES, "kube-system", "trimtab-backup")
    await client.close()
    return datetime.fromisoformat(lease["spec"]["renewTime"])


async def write_pairs(client: KubeClient, number: int, stop: asyncio.Event) -> None:
    count = 0
    while not stop.is_set():
        count += 1
        for side in ("left", "right"):
            obj = config_map(f"{side}-{number}", str(count))
            if count == 1:
                await client.create(CONFIG_MAPS, obj)
            else:
                await client.patch(CONFIG_MAPS, "default", f"{side}-{number}", {"data": {"k": str(count)}})


def test_backup_during_writes_is_the_state_of_one_moment(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data")

    async def scenario() -> list[int]:
        client = KubeClient(load(str(tmp_path / "data" / "kubeconfig")))
        stop = asyncio.Event()
        writers = [asyncio.ensure_future(write_pairs(client, number, stop)) for number in range(4)]
        revisions = []
        for number in range(5):
            await asyncio.sleep(0.2)
            revisions.append((await write_backup(client, tmp_path / f"backup-{number}")).revision)
        stop.set()
        await asyncio.gather(*writers)
        await client.close()
        return revisions

    revisions = asyncio.run(scenario())
    assert server.stop() == 0
    assert revisions == sorted(set(revisions))  # writes went on
    for number, revision in enumerate(revisions):
        backup, target = tmp_path / f"backup-{number}", tmp_path / f"restored-{number}"
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        report = inspect_store(backup)
        assert (report.revision, report.problems) == (revision, ())
        assert run_command("restore", str(backup), "--data-dir", str(target)).code == 0
        for left, right in pairs_in(target):
            assert int(left) - int(right) in (0, 1)


def test_killed_server_or_client_leaves_the_old_backup(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data")
    kubeconfig = str(tmp_path / "data" / "kubeconfig")
    backup = tmp_path / "backup"
    assert run_command("backup", str(backup), "--kubeconfig", kubeconfig).code == 0
    saved_at = asyncio.run(time_of_last_backup(kubeconfig))
    assert timedelta() <= datetime.now(UTC) - saved_at < timedelta(seconds=LIMIT)
    before = backup.read_bytes()

    async def fill_and_kill() -> None:
        client = KubeClient(load(kubeconfig))
        for number in range(30):
            await client.create(CONFIG_MAPS, config_map(f"large-{number}", "x" * 900_000))
        process = await asyncio.create_subprocess_exec(*PYTHON, "backup", str(backup), "--kubeconfig", kubeconfig)
        await asyncio.sleep(0.5)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

        chunks = client.download("/backup")

        async def download(path: str):  # kills the server in the middle
            count = 0
            async for chunk in chunks:
                yield chunk
                count += 1
                if count == 3:
                    os.kill(server.process.pid, signal.SIGKILL)

        client.download = download  # type: ignore[method-assign]
        with pytest.raises((StoreError, OSError)):
            await write_backup(client, backup)
        await client.close()

    asyncio.run(fill_and_kill())
    server.stop(signal.SIGKILL)
    content = backup.read_bytes()
    assert content == before or inspect_store(backup).objects > 30  # the first client may have been faster
    failed = run_command("backup", str(backup), "--kubeconfig", kubeconfig)
    assert (failed.code, failed.err.count("\n")) == (1, 1)
    assert "cannot reach the API server" in failed.err
    assert backup.read_bytes() == content


def test_failures_are_one_line_and_name_the_file(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data")
    kubeconfig = str(tmp_path / "data" / "kubeconfig")
    missing = run_command("backup", str(tmp_path / "no" / "file"), "--kubeconfig", kubeconfig)
    limited = subprocess.run(
        ["prlimit", "--fsize=20000", *PYTHON, "backup", str(tmp_path / "small"), "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert server.stop() == 0
    assert missing.code == limited.returncode == 1
    assert f"{tmp_path / 'no' / 'file'} could not be written: No such file" in missing.err
    assert limited.stderr == f"trimtab: {tmp_path / 'small'} could not be written: disk I/O error\n"
    assert not list(tmp_path.glob("*small*"))
