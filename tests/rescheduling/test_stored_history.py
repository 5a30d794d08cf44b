"""The stored history of the rescheduler survives a restart and a change by somebody else."""

import asyncio
from datetime import UTC, datetime

import orjson

from trimtab.decide.rescheduling.history import MoveRecord, ReschedulingHistory
from trimtab.rescheduling.configuration import CONFIG_MAPS, NAMESPACE
from trimtab.rescheduling.stored_history import STATE, StoredHistory
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOVED = ReschedulingHistory(moves=(MoveRecord(pod="uid", owner="owner", name="default/web", at=NOW),))


def test_a_new_process_knows_the_moves_of_the_last_one() -> None:
    async def scenario() -> None:
        server = ApiServer(Store())
        await server.start()
        client = LocalClient(server)
        first = StoredHistory(client, lambda: NOW)
        assert await first.load() == ReschedulingHistory()
        await first.save(ReschedulingHistory(), "", ())
        assert (await client.list(CONFIG_MAPS, NAMESPACE, fields=f"metadata.name={STATE}")).items == []
        await first.save(MOVED, "", ())
        await client.patch(CONFIG_MAPS, NAMESPACE, STATE, {"metadata": {"labels": {"a": "b"}}})
        await first.save(MOVED, "it is no YAML", ("the rate is used up",))
        assert (await StoredHistory(client, lambda: NOW).load()).moves == MOVED.moves
        data = (await client.get(CONFIG_MAPS, NAMESPACE, STATE))["data"]
        conditions = {one["type"]: (one["status"], one["message"]) for one in orjson.loads(data["conditions.json"])}
        assert conditions["ConfigurationAccepted"] == ("False", "it is no YAML")
        assert conditions["RescheduleLimited"] == ("True", "the rate is used up")
        await server.stop()

    asyncio.run(scenario())
