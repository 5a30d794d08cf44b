"""Runs `trimtab` commands in processes of their own. All limits are long: a slow machine must not fail a test."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from trimtab.cli.commands.up import EXAMPLE
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load

LIMIT = 900.0
"""Seconds after which a test that waits for a process fails."""
PYTHON = [sys.executable, "-c", "from trimtab.cli.main import main; main()"]
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
PROXY = "/apis/cluster.karmada.io/v1alpha1/clusters/{}/proxy{}"


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


def run_command(*arguments: str) -> CommandResult:
    """Run a `trimtab` command to its end."""
    done = subprocess.run([*PYTHON, *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)
    return CommandResult(done.returncode, done.stdout, done.stderr)


@contextlib.asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[None]:
    """A `trimtab` command that runs until the end of the block; the block starts when it prints that it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trimtab", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LIMIT):
            while b"ready" not in (line := await process.stdout.readline()):
                assert line, f"{arguments[0]} exited before it was ready"
        yield
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), LIMIT) == 0


@contextlib.asynccontextmanager
async def api_server(directory: Path) -> AsyncIterator[KubeClient]:
    async with running("apiserver", "--data-dir", str(directory), "--port", "0"):
        client = KubeClient(load(directory / "kubeconfig"))
        try:
            yield client
        finally:
            await client.close()


@contextlib.contextmanager
def up(directory: Path, *options: str) -> Iterator[Path]:
    """A running `trimtab up`; yields its kubeconfig."""
    arguments = ["up", "--port", "0", "--data-dir", str(directory), *options]
    process = subprocess.Popen([*PYTHON, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "ready" in line:
                break
        assert process.poll() is None
        yield directory / "kubeconfig"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)
    assert process.returncode == 0


def with_kube_client(kubeconfig: Path, act: Callable[[KubeClient], Awaitable[Any]], context: str = "") -> Any:
    async def run() -> Any:
        client = KubeClient(load(str(kubeconfig), context))
        try:
            return await act(client)
        finally:
            await client.close()

    return asyncio.run(run())


def eventually(is_met: Callable[[], bool], seconds: float = LIMIT) -> None:
    end = time.monotonic() + seconds
    while not is_met():
        assert time.monotonic() < end, f"not within {seconds:g} seconds"
        time.sleep(0.2)


async def until(is_met: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT):
        while True:
            if await is_met():
                return
            await asyncio.sleep(0.1)


async def apply_example(client: KubeClient) -> None:
    for obj in yaml.safe_load_all(EXAMPLE):
        await client.create(DEPLOYMENTS if obj["kind"] == "Deployment" else POLICIES, obj)


def ready_replicas(kubeconfig: Path) -> int:
    found = with_kube_client(kubeconfig, lambda client: client.get(DEPLOYMENTS, "default", "web"))
    return int((found.get("status") or {}).get("readyReplicas", 0))


class Page(NamedTuple):
    code: int
    text: str


async def fetch_page(url: str) -> Page:
    def fetch() -> Page:
        try:
            with urllib.request.urlopen(url, timeout=LIMIT) as response:
                return Page(response.status, response.read().decode())
        except urllib.error.HTTPError as error:
            return Page(error.code, error.read().decode())

    return await asyncio.to_thread(fetch)
