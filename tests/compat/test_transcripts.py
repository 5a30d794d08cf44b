"""Our API server answers recorded exchanges as a real kube-apiserver did."""

import asyncio
from typing import NamedTuple

import pytest
from compat.transcript_compare import compare
from compat.transcripts import FILES, USERS, Exchange, ExemptExchange, ReplayServer, load

from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.store.store import Store


class TranscriptResult(NamedTuple):
    exempt: dict[str, str]
    failed: dict[str, list[str]]
    passed: set[str]


async def replay_differences(world: ReplayServer, e: Exchange) -> list[str]:
    """Differences when replayed on the last recorded state, else on the state that the response itself shows."""
    found: list[str] = []
    for from_answer in (False, True):
        await world.prepare(e, from_answer=from_answer)
        await world.prepare_watch(e)
        found = compare(without_cells(e) if world.has_unrecorded_rows else e, *await world.replay(e))
        if not found or e.method not in {"PUT", "PATCH", "DELETE"}:
            break
    return found


def without_cells(e: Exchange) -> Exchange:
    """The exchange without the cells of rows whose objects were not recorded."""
    rows = [
        {key: value for key, value in row.items() if key != "cells"} | {"_cells": 1} for row in e.recorded_body["rows"]
    ]
    return e._replace(recorded_body={**e.recorded_body, "rows": rows})


async def replay_all() -> dict[str, TranscriptResult]:
    server = ApiServer(Store(), ApiServerSettings(clock=LoopClock(), static_tokens=USERS, garbage_collection=False))
    await server.start()
    world = ReplayServer(server)
    verdicts = {name: TranscriptResult({}, {}, set()) for name in FILES}
    for e in load():
        try:
            found = await replay_differences(world, e)
        except ExemptExchange as why:
            verdicts[e.file].exempt[e.id] = str(why)
        else:
            if found:
                verdicts[e.file].failed[f"{e.id} {e.op} {e.method} {e.path[:110]}"] = found[:6]
            else:
                verdicts[e.file].passed.add(e.id)
        world.forget_if_unknown(e)
        for obj in (e.recorded_body, *((event or {}).get("object") for event in e.events or ())):
            world.record_object(obj)
        await asyncio.sleep(0.1)  # CRDs are served in the background
    await server.stop()
    return verdicts


@pytest.fixture(scope="module")
def verdicts() -> dict[str, TranscriptResult]:
    return run_virtually(replay_all())


@pytest.mark.parametrize("name", FILES)
def test_recorded_exchanges_are_answered_as_recorded(name: str, verdicts: dict[str, TranscriptResult]) -> None:
    failed = verdicts[name].failed
    report = "\n".join(f"{what}\n    " + "\n    ".join(why) for what, why in failed.items())
    assert not failed, f"{len(failed)} of {len(failed) + len(verdicts[name].passed)} differ:\n{report}"


def test_few_exchanges_are_exempt(verdicts: dict[str, TranscriptResult]) -> None:
    exempt = sum(len(result.exempt) for result in verdicts.values())
    passed = sum(len(result.passed) for result in verdicts.values())
    assert exempt < passed / 4, {why for result in verdicts.values() for why in result.exempt.values()}
