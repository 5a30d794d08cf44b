"""Health, readiness and metrics endpoints of `trimtab controllers`."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli.processes import LIMIT, Page, api_server, fetch_page, until
from trimtab.cli.support.probes import split_address
from trimtab.errors import InputError


@contextlib.asynccontextmanager
async def controllers(kubeconfig: Path) -> AsyncIterator[str]:
    """Controllers with leader election in their own process; yields the address of their endpoints."""
    options = ("--kubeconfig", str(kubeconfig), "--leader-elect", "--health-address", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trimtab", "controllers", *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), LIMIT)).decode()
        yield line.rpartition(" ")[2].strip()
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), LIMIT)


async def wait_until_readyz_returns(address: str, text: str) -> None:
    async def is_returned() -> bool:
        return await fetch_page(f"{address}/readyz") == Page(200, text)

    await until(is_returned)


def test_leader_and_standby_are_both_ready_and_only_one_leads(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with api_server(tmp_path), controllers(tmp_path / "kubeconfig") as first:
            await wait_until_readyz_returns(first, "ok\n")
            async with controllers(tmp_path / "kubeconfig") as second:
                await wait_until_readyz_returns(second, "ok: waiting for the lease\n")
                leader, standby = await fetch_page(f"{first}/metrics"), await fetch_page(f"{second}/metrics")
            assert "trimtab_leading 1\n" in leader.text
            assert 'trimtab_controller_queue_length{controller="detect"} 0\n' in leader.text
            assert "process_cpu_seconds_total " in leader.text
            assert "trimtab_leading 0\n" in standby.text
            assert "trimtab_controller" not in standby.text
            assert await fetch_page(f"{first}/healthz") == Page(200, "ok\n")
            assert (await fetch_page(f"{first}/")).code == 404

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:8081", ("127.0.0.1", 8081)), ("[::1]:0", ("::1", 0)), (":8081", ("", 8081))],
)
def test_address_is_split_into_host_and_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["8081", "localhost", "localhost:", "localhost:http", "localhost:65536"])
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="expected HOST:PORT, such as"):
        split_address(address)


def test_address_in_use_is_reported_with_the_option_to_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with api_server(tmp_path), controllers(tmp_path / "kubeconfig") as address:
            used = address.removeprefix("http://")
            options = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--health-address", used)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "trimtab", "controllers", *options, stderr=asyncio.subprocess.PIPE
            )
            _, error = await asyncio.wait_for(process.communicate(), LIMIT)
            assert process.returncode != 0
            assert b"choose another with --health-address" in error

    asyncio.run(scenario())
