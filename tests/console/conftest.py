"""One browser and one running fleet for all tests of the console that need them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from cli.processes import apply_example
from console.browser import RunningConsole, UpProcess, call_api, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def fleet_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    directory: Path = tmp_path_factory.mktemp("console") / "data"
    settings = ("--set", "evacuate-after-seconds=5", "--set", "cluster-failure-threshold=0")
    process = UpProcess(directory, "--clusters", "3", *settings)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def console(browser: Browser, fleet_process: UpProcess) -> RunningConsole:
    running = fleet_process.start()
    call_api(running, apply_example)
    return running
