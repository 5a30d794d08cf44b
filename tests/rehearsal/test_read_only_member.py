"""A member that is only read: what would be written is kept in memory and listed once."""

import asyncio

import pytest

from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import AlreadyExists, NotFound, Unavailable
from trimtab.rehearsal.read_only_member import MemberWrite, ReadOnlyMember
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def config_map(**data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}, "data": data}


def test_writes_are_listed_and_read_back_and_not_sent() -> None:
    async def scenario() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        client, writes = LocalClient(server), dict[MemberWrite, None]()
        await client.create(MAPS, config_map(x="1"))
        member = ReadOnlyMember(client, "m1", writes)
        with pytest.raises(AlreadyExists):
            await member.create(MAPS, config_map())
        await member.patch(MAPS, "default", "a", {"data": {"x": "1"}})
        assert not writes, "a patch that changes nothing is no write"
        for _ in range(2):
            await member.patch(MAPS, "default", "a", {"data": {"x": None, "y": "2"}})
        assert [(one.verb, one.fields) for one in writes] == [("update", ("data.x", "data.y"))]
        assert (await member.get(MAPS, "default", "a"))["data"] == {"y": "2"}
        await member.delete(MAPS, "default", "a")
        with pytest.raises(NotFound):
            await member.get(MAPS, "default", "a")
        with pytest.raises(NotFound):
            await member.patch(MAPS, "default", "a", {"data": {}})
        with pytest.raises(Unavailable):
            await member.submit(MAPS, "default", "a", "scale", {})
        assert (await client.get(MAPS, "default", "a"))["data"] == {"x": "1"}
        await server.stop()
        await asyncio.sleep(0)

    run_virtually(scenario())
