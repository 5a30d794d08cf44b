"""A real Chromium for tests, and a `trimtab up` for it to look at."""

import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from cli.processes import LIMIT, PYTHON, with_kube_client
from trimtab.client.kube import KubeClient

T = TypeVar("T")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "TRIMTAB_REQUIRE_CHROMIUM"
MISSING = "the pages are not tested in a browser: there is no Chromium; install it with: apt-get install chromium"


def chromium_path() -> str:
    """The browser; without one the tests are skipped with a reason, or fail where it is required."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get(REQUIRED):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=LIMIT * 1000)
        try:
            yield browser
        finally:
            browser.close()


class RunningConsole(NamedTuple):
    """A `trimtab up` with its login link."""

    url: str
    link: str
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def admin_token(self) -> str:
        return (self.directory / "pki" / "admin.token").read_text().strip()


class UpProcess:
    """Starts and stops `trimtab up` on one data directory; the port stays the same over restarts."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self._options = options
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> RunningConsole:
        arguments = ["up", "--port", self._port, "--data-dir", str(self.directory), *self._options]
        process = self._process = subprocess.Popen([*PYTHON, *arguments], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        link = next((line.split()[1] for line in process.stdout if line.startswith("Console: ")), "")
        assert link, "trimtab up printed no link to the console"
        url = link.partition("/console")[0]
        self._port = url.rpartition(":")[2]
        return RunningConsole(url, link, self.directory)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            assert self._process.wait(LIMIT) == 0
            self._process = None


def call_api(console: RunningConsole, work: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Call the API as the administrator; in a thread, because the browser has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(with_kube_client, console.kubeconfig, work).result()


def new_tab(browser: Browser, **options: object) -> Page:
    context: BrowserContext = browser.new_context(ignore_https_errors=True, **options)  # type: ignore[arg-type]
    context.set_default_timeout(LIMIT * 1000)
    return context.new_page()


def sign_in(page: Page, console: RunningConsole, token: str) -> None:
    page.goto(f"{console.url}/console/login")
    page.fill("input[name=token]", token)
    page.click("button.primary")
    page.wait_for_url(f"{console.url}/console/")
