"""What tests of several commands share."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.processes import LIMIT
from trimtab.server.daemon import Daemon


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """An API server without controllers."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    daemon = Daemon(tmp_path, "127.0.0.1", 0)
    asyncio.run_coroutine_threadsafe(daemon.start(), loop).result(LIMIT)
    yield str(daemon.kubeconfig)
    asyncio.run_coroutine_threadsafe(daemon.stop(), loop).result(LIMIT)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT)
    loop.close()
