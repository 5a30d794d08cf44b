"""Moves, blocked moves, failovers and clusters become CloudEvents."""

import asyncio
from typing import Any

import pytest
from move_helpers import MoveScenario, divided, run_scenario

from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec, MoveStatus, MoveTarget
from trimtab.api.value import Meta
from trimtab.cli.commands.drain_cluster import start_drain
from trimtab.clock import EPOCH, LoopClock
from trimtab.runtime.observers.notifications import Notifier, cloud_event, notifications_about

MOVE = Move(
    metadata=Meta(name="m", namespace="default", uid="u"),
    spec=MoveSpec(
        object=MovedObject(api_version="apps/v1", kind="Deployment", namespace="default", name="web"),
        cause="Drain",
        from_="m1",
        to=(MoveTarget(name="m2", replicas=2),),
        replicas=2,
    ),
)


@pytest.mark.parametrize(("cause", "word"), [("Drain", "move"), ("ClusterFailover", "failover")])
def test_start_and_end_of_a_move_are_told_once(cause: str, word: str) -> None:
    move = MOVE.but(spec=MOVE.spec.but(cause=cause))
    (started,) = notifications_about(None, move)
    assert started.type == f"dev.trimtab.{word}.started"
    assert started.data["to"] == [{"cluster": "m2", "replicas": 2}]
    done = move.but(status=MoveStatus(outcome="Done"))
    (finished,) = notifications_about(move, done)
    assert (finished.type, finished.data["outcome"]) == (f"dev.trimtab.{word}.finished", "Done")
    assert list(notifications_about(done, done)) == []


def test_event_has_the_attributes_of_cloudevents_and_a_stable_id() -> None:
    (started,) = notifications_about(None, MOVE)
    event = cloud_event(started, "u", "/trimtab", EPOCH)
    assert event == cloud_event(started, "u", "/trimtab", EPOCH)
    assert {name: event[name] for name in ("specversion", "source", "type", "subject", "time", "id")} == {
        "specversion": "1.0",
        "source": "/trimtab",
        "type": "dev.trimtab.move.started",
        "subject": "Deployment/default/web",
        "time": "2030-01-01T00:00:00Z",
        "id": "u/started/started",
    }


def test_fleet_tells_of_blocks_approvals_moves_and_failures_but_not_of_history() -> None:
    async def act(scene: MoveScenario) -> None:
        events: list[Any] = []
        await scene.create_deployment("web", replicas=4)
        await scene.create_policy(divided(("m1", 1), ("m2", 1)))
        await scene.wait_until_settled("web", {"m1": 2, "m2": 2})
        await scene.create_budget(approval="Required")
        assert scene.fleet.plane is not None
        Notifier(scene.fleet.plane.cache, LoopClock(), events.append, "/trimtab").watch()
        await asyncio.sleep(30)
        assert events == []
        await start_drain(scene.client, "m1")
        await asyncio.sleep(30)
        assert [event["type"] for event in events] == ["dev.trimtab.move.approval-required"]
        events.clear()
        scene.world["m2"].partition()
        await asyncio.sleep(500)
        types = [event["type"] for event in events]
        assert "dev.trimtab.cluster.notready" in types
        assert len({event["id"] for event in events}) == len(events)

    run_scenario(act)
