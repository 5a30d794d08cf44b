"""Store tests are coroutines on a plain event loop; stores are closed at the end."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trimtab.store.index import Retention
from trimtab.store.store import Store


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 60))
    return True


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens a store in the data directory of the test and closes it at the end."""
    opened: list[Store] = []

    def open_store(keep: Retention = Retention(), directory: Path = tmp_path) -> Store:  # noqa: B008
        store = Store.open(directory, keep)
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        asyncio.run(store.close())


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, on_disk: Callable[..., Store]) -> Store:
    return Store() if request.param == "memory" else on_disk()
