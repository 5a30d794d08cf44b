"""A server whose disk is full: writes are refused, everything else goes on, and room on the disk is all it needs.

Every kind of full disk is a class here: a limit for the size of files, which needs no rights, and a small file system of
its own, where this user can mount one.
"""

import contextlib
import json
import resource
import select
import shutil
import signal
import socket
import ssl
import subprocess
import tarfile
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Protocol

import pytest

from cli.processes import LIMIT, PYTHON, eventually, run_command
from trimtab.store.inspection import inspect_store
from trimtab.store.sqlite import FORMAT

MAPS = "/api/v1/namespaces/default/configmaps"
STORES = Path(__file__).parents[1] / "store" / "stores_of_format_1.tar.xz"
STARTED: list[subprocess.Popen[str]] = []
UNLIMITED = resource.getrlimit(resource.RLIMIT_FSIZE)


class FullDisk(Protocol):
    directory: Path

    def fill(self, pid: int) -> None: ...

    def free(self, pid: int) -> None: ...

    def in_child(self) -> None: ...


class FileSizeLimit:
    """No file of the process can grow."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._is_full = False

    def fill(self, pid: int) -> None:
        self._is_full = True
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (200_000, UNLIMITED[1]))

    def free(self, pid: int) -> None:
        self._is_full = False
        resource.prlimit(pid, resource.RLIMIT_FSIZE, UNLIMITED)

    def in_child(self) -> None:
        """A process that starts while the disk is full can write no file at all."""
        if self._is_full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, UNLIMITED[1]))


class SmallFileSystem:
    """A file system with 12 MiB."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def fill(self, pid: int) -> None:
        with contextlib.suppress(OSError), (self.directory / "ballast").open("ab", buffering=0) as ballast:
            for size in (1 << 16, 1 << 8, 1):
                with contextlib.suppress(OSError):
                    while ballast.write(bytes(size)):
                        pass

    def free(self, pid: int) -> None:
        (self.directory / "ballast").unlink()

    def in_child(self) -> None:
        """Nothing to do: all processes see the same file system."""


@pytest.fixture(autouse=True)
def stop_servers() -> Iterator[None]:
    """Stop what a failed test leaves."""
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.wait(LIMIT)
    STARTED.clear()


@pytest.fixture(params=["limit", "file system"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, stop_servers: None) -> Iterator[FullDisk]:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    if request.param == "limit":
        yield FileSizeLimit(directory)
        return
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=12m,mode=0700", "tmpfs", str(directory)]
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a file system")
    yield SmallFileSystem(directory)
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


class Server:
    """One run of a command that serves the API."""

    def __init__(self, disk: FullDisk, *arguments: str) -> None:
        self.directory = disk.directory
        self.errors = (disk.directory.parent / "stderr").open("a+")
        self.process = subprocess.Popen(
            [*PYTHON, *arguments, "--data-dir", str(disk.directory)],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            preexec_fn=disk.in_child,  # noqa: PLW1509 - the test has no threads
        )
        STARTED.append(self.process)
        self.url = ""
        assert self.process.stdout is not None
        while "ready" not in (line := self._read_line()):
            assert line, self.log
            self.url = next((word for word in line.split() if word.startswith("https://")), self.url)
        self.url = next((word for word in line.split() if word.startswith("https://")), self.url)
        self.port = self.url.rpartition(":")[2]

    def _read_line(self) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], LIMIT)[0], self.log
        return self.process.stdout.readline()

    @property
    def log(self) -> str:
        self.errors.flush()
        return (self.directory.parent / "stderr").read_text()

    def connect(self) -> HTTPConnection:
        context = ssl.create_default_context(cafile=str(self.directory / "pki" / "ca.crt"))
        context.load_cert_chain(self.directory / "pki" / "admin.crt", self.directory / "pki" / "admin.key")
        return HTTPSConnection(f"127.0.0.1:{self.port}", context=context, timeout=LIMIT)

    def send(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        connection = self.connect()
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": media})
        return connection.getresponse()

    def request(self, method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, str]:
        response = self.send(method, path, body, media)
        return response.status, response.read().decode()

    def create(self, name: str, size: int = 30_000) -> tuple[int, str]:
        return self.request("POST", MAPS, {"metadata": {"name": name}, "data": {"k": "x" * size}})

    def names(self) -> set[str]:
        status, text = self.request("GET", MAPS)
        assert status == 200
        return {one["metadata"]["name"] for one in json.loads(text)["items"]}

    def create_until_refused(self, prefix: str) -> tuple[set[str], dict[str, Any]]:
        """The acknowledged names, and the Status of the first refusal."""
        created: set[str] = set()
        for number in range(2000):
            status, text = self.create(f"{prefix}-{number}")
            if status != 201:
                return created, json.loads(text)
            created.add(f"{prefix}-{number}")
        raise AssertionError("the disk is never full")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(LIMIT)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()
        return code


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def check_refused(server: Server, directory: Path) -> None:
    """Every kind of write is refused, everything else works, and the probes say what is wrong."""
    for method, path, body, media in (
        ("POST", MAPS, {"metadata": {"name": "more"}, "data": {"k": "x" * 200_000}}, "application/json"),
        ("PUT", f"{MAPS}/kept", {"metadata": {"name": "kept"}, "data": {"k": "x" * 200_000}}, "application/json"),
        ("PATCH", f"{MAPS}/kept", {"data": {"k": "x" * 200_000}}, "application/merge-patch+json"),
    ):
        status, text = server.request(method, path, body, media)
        found = json.loads(text)
        assert (status, found["code"], found["reason"]) == (507, 507, "StorageFull"), text
        assert str(directory) in found["message"]
        assert "free" in found["message"]
    assert server.request("GET", f"{MAPS}/kept")[0] == 200
    assert server.request("GET", "/livez") == (200, "ok")
    assert server.request("GET", "/healthz") == (200, "ok")
    status, text = server.request("GET", "/readyz")
    assert status == 500
    assert "writes are refused" in text
    assert str(directory) not in text  # everybody may read it


def check_log(server: Server, runs: int) -> None:
    lines = server.log.splitlines()
    assert "Traceback" not in server.log
    assert 1 <= sum("writes are refused" in line for line in lines) <= 3 * runs, lines
    assert len(lines) < 20 * runs, lines


def has_event(stream: Any, name: str) -> bool:
    """Read a watch until the object is in it."""
    with contextlib.suppress(HTTPException, OSError):
        while line := stream.readline():
            if json.loads(line)["object"]["metadata"]["name"] == name:
                return True
    return False


def test_full_disk_refuses_writes_and_needs_nothing_but_room(disk: FullDisk) -> None:
    command = ("apiserver", "--port", free_port())
    server = Server(disk, *command)
    assert server.create("kept")[0] == 201
    watch = server.send("GET", f"{MAPS}?watch=1&timeoutSeconds=3000")
    disk.fill(server.process.pid)
    acknowledged, refusal = server.create_until_refused("first")
    assert (refusal["code"], refusal["reason"]) == (507, "StorageFull")
    check_refused(server, disk.directory)
    assert server.names() - {"kube-root-ca.crt"} == acknowledged | {"kept"}

    backup, kubeconfig = disk.directory.parent / "backup", disk.directory / "kubeconfig"
    assert run_command("backup", str(backup), "--kubeconfig", str(kubeconfig)).code == 0  # it needs no room
    assert inspect_store(backup).problems == ()

    disk.free(server.process.pid)
    eventually(lambda: server.request("GET", "/readyz")[0] == 200)  # also if nobody writes
    assert server.create("after")[0] == 201
    assert has_event(watch, "after")
    check_log(server, 1)
    assert server.stop() == 0
    again = Server(disk, *command)
    assert again.names() - {"kube-root-ca.crt"} == acknowledged | {"kept", "after"}
    assert again.stop() == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_restart_on_a_full_disk_serves_reads_and_needs_nothing_but_room(disk: FullDisk, how: signal.Signals) -> None:
    command = ("apiserver", "--port", free_port())
    server = Server(disk, *command)
    assert server.create("kept")[0] == 201
    disk.fill(server.process.pid)
    acknowledged, _ = server.create_until_refused("first")
    server.stop(how)
    if isinstance(disk, SmallFileSystem):
        disk.fill(0)  # a clean stop deletes the write-ahead log
    before = (disk.directory / "kubeconfig").read_bytes()

    again = Server(disk, *command)
    assert again.names() - {"kube-root-ca.crt"} == acknowledged | {"kept"}
    refused, _ = again.create_until_refused("second")
    check_refused(again, disk.directory)
    assert (disk.directory / "kubeconfig").read_bytes() == before
    disk.free(again.process.pid)
    eventually(lambda: again.request("GET", "/readyz")[0] == 200)
    assert again.create("after")[0] == 201
    assert again.names() - {"kube-root-ca.crt"} == acknowledged | refused | {"kept", "after"}
    check_log(again, 2)
    assert again.stop() == 0


def test_store_of_an_older_format_on_a_full_disk_serves_reads_and_needs_nothing_but_room(disk: FullDisk) -> None:
    command = ("apiserver", "--port", free_port())
    server = Server(disk, *command)
    server.stop()
    for file in disk.directory.glob("store.db*"):
        file.unlink()
    with tarfile.open(STORES) as archive:
        content = archive.extractfile("./closed/store.db")
        assert content is not None
        (disk.directory / "store.db").write_bytes(content.read())
    if isinstance(disk, FileSizeLimit):
        disk._is_full = True
    else:
        disk.fill(0)

    again = Server(disk, *command)
    kept = again.names()
    assert {"settings-0", "settings-1", "settings-2"} <= kept
    assert again.create("refused")[0] == 507
    assert again.request("GET", "/livez") == (200, "ok")
    assert again.request("GET", "/readyz")[0] == 500
    disk.free(again.process.pid)
    eventually(lambda: again.request("GET", "/readyz")[0] == 200)
    assert again.create("after")[0] == 201
    assert again.stop() == 0
    assert inspect_store(disk.directory / "store.db").format == FORMAT


def test_fleet_on_a_full_disk_starts_again_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """`trimtab up` has more to write: the stores of the members, the fleet and the example."""
    (tmp_path / "data").mkdir()
    disk = FileSizeLimit(tmp_path / "data")
    command = ("up", "--port", free_port(), "--clusters", "1", "--nodes", "1")
    server = Server(disk, *command)
    assert server.stop(signal.SIGKILL)
    files = {name: (disk.directory / name).read_bytes() for name in ("kubeconfig", "fleet.json", "example.yaml")}
    disk._is_full = True
    again = Server(disk, *command)
    assert again.create("refused")[0] == 507
    assert again.request("GET", "/livez") == (200, "ok")
    assert again.request("GET", "/members/member1/livez") == (200, "ok")
    assert again.request("GET", "/members/member1/api/v1/nodes")[0] == 200
    assert {name: (disk.directory / name).read_bytes() for name in files} == files
    disk.free(again.process.pid)
    eventually(lambda: again.request("GET", "/readyz")[0] == 200)
    assert again.create("after")[0] == 201
    lease = "/members/member1/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

    def renewals() -> list[str]:
        items = json.loads(again.request("GET", lease)[1])["items"]
        return [one["spec"]["renewTime"] for one in items]

    before = renewals()
    eventually(lambda: renewals() != before)
    assert "Traceback" not in again.log
    assert again.stop() == 0
