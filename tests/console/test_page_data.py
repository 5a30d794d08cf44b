"""The data of pages is there for pages that were open before it."""

import asyncio
from typing import Any, cast

from builders import cluster

from console.fake_console import new_console
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.runtime.cache import Cache


def test_page_that_was_open_before_the_cache_was_there_is_filled() -> None:
    async def open_page_then_attach() -> list[str]:
        console = new_console()
        await console.start()  # as a browser that connects again does while the program starts
        cache = Cache(cast("Any", None))
        console.attach(cache)
        cache.table_of(Cluster).put(kind_of(Cluster).encode(cluster("m1")))
        return list(console.model.clusters)

    assert asyncio.run(open_page_then_attach()) == ["m1"]
