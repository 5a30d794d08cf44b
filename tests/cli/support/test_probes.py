"""Who runs the controllers in production asks them how they are, as they ask everything else that runs there."""

import asyncio
import contextlib
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.commands.test_controllers import api_server
from trimtab.cli.support.probes import split
from trimtab.errors import InputFault


class Said(NamedTuple):
    code: int
    text: str


async def asked(url: str) -> Said:
    def ask() -> Said:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return Said(answer.status, answer.read().decode())
        except urllib.error.HTTPError as refusal:
            return Said(refusal.code, refusal.read().decode())

    return await asyncio.to_thread(ask)


@contextlib.asynccontextmanager
async def controllers(kubeconfig: Path) -> AsyncIterator[str]:
    """Controllers that stand for election, in a process of their own; yields where they tell how they are."""
    options = ("--kubeconfig", str(kubeconfig), "--leader-elect", "--health-address", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trimtab", "controllers", *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        yield line.rpartition(" ")[2].strip()
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 30)


async def until_it_says(address: str, text: str) -> None:
    async with asyncio.timeout(60):
        while True:
            if await asked(f"{address}/readyz") == Said(200, text):
                return
            await asyncio.sleep(0.1)


def test_the_leader_and_the_one_in_waiting_are_both_ready_and_only_one_leads(tmp_path: Path) -> None:
    async def story() -> None:
        async with api_server(tmp_path), controllers(tmp_path / "kubeconfig") as first:
            await until_it_says(first, "ok\n")
            async with controllers(tmp_path / "kubeconfig") as second:
                await until_it_says(second, "ok: waiting for the lease\n")
                leader, waiting = await asked(f"{first}/metrics"), await asked(f"{second}/metrics")
            assert "trimtab_leading 1\n" in leader.text
            assert 'trimtab_controller_queue_length{controller="detect"} 0\n' in leader.text
            assert "process_cpu_seconds_total " in leader.text
            assert "trimtab_leading 0\n" in waiting.text
            assert "trimtab_controller" not in waiting.text
            assert await asked(f"{first}/healthz") == Said(200, "ok\n")
            assert (await asked(f"{first}/")).code == 404

    asyncio.run(story())


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:8081", ("127.0.0.1", 8081)), ("[::1]:0", ("::1", 0)), (":8081", ("", 8081))],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split(address) == parts


@pytest.mark.parametrize("address", ["8081", "localhost", "localhost:", "localhost:http", "localhost:65536"])
def test_anything_else_is_no_address(address: str) -> None:
    with pytest.raises(InputFault, match="HOST:PORT was expected, such as"):
        split(address)


def test_an_address_that_is_taken_is_named_with_the_option_to_change(tmp_path: Path) -> None:
    async def story() -> None:
        async with api_server(tmp_path), controllers(tmp_path / "kubeconfig") as address:
            taken = address.removeprefix("http://")
            options = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--health-address", taken)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "trimtab", "controllers", *options, stderr=asyncio.subprocess.PIPE
            )
            _, said = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode != 0
            assert b"choose another with --health-address" in said

    asyncio.run(story())
