"""Servers of one process that start with the objects of the first one."""

import asyncio
import random
from datetime import datetime, timedelta
from typing import Any

import orjson

from server.asgi import AsgiClient
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.background.start_image import StartImage
from trimtab.simulate.member_server import is_served_by_member, seeded_uids
from trimtab.store.store import Store

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def started_server(seed: int, image: StartImage | None) -> ApiServer:
    settings = ApiServerSettings(
        clock=LoopClock(), new_uid=seeded_uids(random.Random(seed)), serves=is_served_by_member, start_image=image
    )
    server = ApiServer(Store(), settings)
    await server.start()
    return server


def state_of(server: ApiServer) -> dict[str, tuple[Any, int, int]]:
    entries, _ = server.store.snapshot()
    return {entry.key: (orjson.loads(entry.value), entry.mod_revision, entry.create_revision) for entry in entries}


def test_a_later_server_has_the_same_objects_as_if_it_had_admitted_them() -> None:
    async def run() -> None:
        image = StartImage()
        first = await started_server(1, image)
        await asyncio.sleep(60)
        second, alone = await started_server(2, image), await started_server(2, None)
        await asyncio.sleep(1)
        assert state_of(second) == state_of(alone)
        assert second.store.revision == alone.store.revision
        uids = [{obj["metadata"]["uid"] for obj, *_ in state_of(server).values()} for server in (first, second)]
        assert len(uids[0]) == len(uids[1]) > 20
        assert not uids[0] & uids[1]
        for server in (first, second, alone):
            await server.stop()

    run_virtually(run())


def test_a_write_to_one_server_does_not_change_the_others() -> None:
    async def run() -> None:
        image = StartImage()
        servers = [await started_server(seed, image) for seed in (1, 2)]
        path = "/api/v1/namespaces/default"
        patch = orjson.dumps({"metadata": {"labels": {"changed": "yes"}}})
        await AsgiClient(servers[1])("PATCH", path, patch, content_type="application/merge-patch+json")
        labels = [(await AsgiClient(server)("GET", path)).json()["metadata"]["labels"] for server in servers]
        assert [found.get("changed") for found in labels] == [None, "yes"]
        for server in servers:
            await server.stop()

    run_virtually(run())


def test_a_later_server_serves_new_definitions() -> None:
    async def run() -> None:
        image = StartImage()
        servers = [await started_server(seed, image) for seed in (1, 2)]
        client = AsgiClient(servers[1])
        definition = {
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                    }
                ],
            },
        }
        assert (await client("POST", CRDS, definition)).status == 201
        await asyncio.sleep(1)
        assert (await client("GET", "/apis/example.com/v1/widgets")).status == 200
        for server in servers:
            await server.stop()

    run_virtually(run())


def test_objects_with_different_times_are_not_taken() -> None:
    class TickingClock(LoopClock):
        """A second passes whenever somebody reads it."""

        reads = 0

        def now(self) -> datetime:
            self.reads += 1
            return super().now() + timedelta(seconds=self.reads)

    async def run() -> None:
        image = StartImage()
        server = ApiServer(Store(), ApiServerSettings(clock=TickingClock(), start_image=image))
        await server.start()
        assert not image
        await server.stop()

    run_virtually(run())
